#include "serve/api_keys.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <utility>

#include "base/files.h"

namespace mooring {
namespace {

constexpr uint64_t kFileLimitBytes = 1 << 20;
constexpr std::string_view kScheme = "bearer ";
constexpr size_t kOwnerBytes = 16;

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

}  // namespace

ApiKeys::Digest ApiKeys::DigestOf(std::string_view key) {
  Digest digest;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), digest.data());
  return digest;
}

Result<ApiKeys> ApiKeys::Read(const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kFileLimitBytes));
  ApiKeys keys;
  size_t number = 0;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    ++number;
    const std::string_view key = Trimmed(line);
    if (key.empty() || key.front() == '#') continue;
    if (key.size() < kMinKeyBytes) {
      return Error{.kind = ErrorKind::kConfig,
                   .what = "an API key is too short",
                   .where = fmt::format("{}:{}", path.string(), number),
                   .expected = fmt::format("at least {} characters", kMinKeyBytes),
                   .found = fmt::format("{}", key.size()),
                   .remedy = "make one with `openssl rand -hex 24`"};
    }
    keys.digests_.push_back(DigestOf(key));
  }
  if (!keys.needed()) {
    return Error{.kind = ErrorKind::kConfig,
                 .what = "no API key in the file",
                 .where = path.string(),
                 .remedy = "write one a line; make one with `openssl rand -hex 24`"};
  }
  return keys;
}

std::optional<std::string> ApiKeys::OwnerOf(std::string_view authorization) const {
  if (!needed()) return "local";
  std::string scheme(authorization.substr(0, kScheme.size()));
  std::ranges::transform(scheme, scheme.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  if (scheme != kScheme) return std::nullopt;
  const Digest given = DigestOf(Trimmed(authorization.substr(kScheme.size())));
  const Digest* found = nullptr;
  for (const Digest& digest : digests_) {
    if (CRYPTO_memcmp(digest.data(), given.data(), digest.size()) == 0) found = &digest;
  }
  if (found == nullptr) return std::nullopt;
  std::string owner;
  for (size_t i = 0; i < kOwnerBytes; ++i) owner += fmt::format("{:02x}", (*found)[i]);
  return owner;
}

}  // namespace mooring
