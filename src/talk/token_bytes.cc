#include "talk/token_bytes.h"

#include <fmt/format.h>

#include <algorithm>

#include "talk/byte_stream.h"

namespace mooring {

Status CheckTokens(const LogTokens& tokens) {
  if (tokens.ids.size() != tokens.generated.size()) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "each token needs to be read or generated",
                 .expected = fmt::format("{} bits", tokens.ids.size()),
                 .found = fmt::format("{}", tokens.generated.size())};
  }
  const auto bad = std::find_if(tokens.ids.begin(), tokens.ids.end(),
                                [](TokenId id) { return id < 0 || id > TokenLog::kMaxToken; });
  if (bad == tokens.ids.end()) return {};
  return Error{.kind = ErrorKind::kUsage,
               .what = "this is no token",
               .expected = fmt::format("an id from 0 to {}", TokenLog::kMaxToken),
               .found = fmt::format("{}", *bad)};
}

std::string TokenBytes(const LogTokens& tokens) {
  std::string bytes;
  ByteWriter writer(&bytes);
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    writer.Varint(static_cast<uint64_t>(tokens.ids[i]) * 2 + (tokens.generated[i] ? 1 : 0));
  }
  return bytes;
}

Result<LogTokens> ReadTokenBytes(std::string_view bytes) {
  LogTokens tokens;
  ByteReader reader(bytes);
  while (reader.ok() && reader.left() > 0) {
    const uint64_t entry = reader.Varint();
    if (!reader.ok() || entry / 2 > static_cast<uint64_t>(TokenLog::kMaxToken)) {
      return Error{.kind = ErrorKind::kModelInvalid,
                   .what = "stored tokens are damaged",
                   .found = fmt::format("no token after {} tokens", tokens.ids.size())};
    }
    tokens.ids.push_back(static_cast<TokenId>(entry / 2));
    tokens.generated.push_back(entry % 2 != 0);
  }
  return tokens;
}

}  // namespace mooring
