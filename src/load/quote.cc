#include "load/quote.h"

#include <fmt/format.h>

namespace mooring {

std::string QuoteBytes(std::string_view bytes) {
  constexpr size_t kShownBytes = 80;
  std::string quoted = "'";
  for (const char c : bytes.substr(0, kShownBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7F && c != '\'' && c != '\\') {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", byte);
    }
  }
  quoted += bytes.size() > kShownBytes ? "...'" : "'";
  return quoted;
}

}  // namespace mooring
