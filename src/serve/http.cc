#include "serve/http.h"

#include <charconv>

namespace mooring {

std::string_view HttpRequest::Header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (key == name) return value;
  }
  return {};
}

std::optional<std::string> HttpRequest::Query(std::string_view name) const {
  std::string_view rest = query;
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), field.size() + 1));
    const size_t equals = std::min(field.find('='), field.size());
    if (PercentDecoded(field.substr(0, equals), true) != name) continue;
    return PercentDecoded(field.substr(std::min(field.size(), equals + 1)), true);
  }
  return std::nullopt;
}

std::optional<std::string> PercentDecoded(std::string_view text, bool query) {
  constexpr int kHex = 16;
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (query && text[i] == '+') {
      decoded += ' ';
    } else if (text[i] != '%') {
      decoded += text[i];
    } else {
      unsigned value = 0;
      const std::string_view digits = text.substr(i + 1, 2);
      const auto [end, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), value, kHex);
      if (digits.size() != 2 || error != std::errc() || end != digits.data() + 2) {
        return std::nullopt;
      }
      decoded += static_cast<char>(value);
      i += 2;
    }
  }
  return decoded;
}

}  // namespace mooring
