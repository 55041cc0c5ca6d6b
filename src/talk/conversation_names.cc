#include "talk/conversation_names.h"

#include <fmt/format.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>

namespace mooring {
namespace {

constexpr std::string_view kDigits = "abcdefghijklmnopqrstuvwxyz234567";
constexpr int kDigitBits = 5;
constexpr size_t kRandomBytes = 16;

bool IsNameCharacter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         std::string_view("._:@-").find(c) != std::string_view::npos;
}

bool HasIdPrefix(std::string_view text) { return text.substr(0, 5) == kConversationPrefix; }

}  // namespace

Result<ReferenceKind> KindOfReference(std::string_view reference) {
  if (HasIdPrefix(reference)) return ReferenceKind::kId;
  MOORING_RETURN_IF_ERROR(CheckName(reference));
  return ReferenceKind::kName;
}

Status CheckName(std::string_view name) {
  Error error{
      .kind = ErrorKind::kUsage,
      .what = "this cannot be the name of a conversation",
      .expected = fmt::format("1 to {} characters of A-Z a-z 0-9 . _ : @ -", kMaxNameBytes)};
  if (name.empty() || name.size() > kMaxNameBytes) {
    error.found = fmt::format("{} bytes", name.size());
    return error;
  }
  if (!std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    error.found = "other characters";
    return error;
  }
  if (HasIdPrefix(name)) {
    error.found = fmt::format("a name that begins with {}, as ids do", kConversationPrefix);
    return error;
  }
  return {};
}

Result<std::string> MakeId(std::string_view prefix) {
  std::array<uint8_t, kRandomBytes> random = {};
  if (RAND_bytes(random.data(), static_cast<int>(random.size())) != 1) {
    return Error{.what = "the system gives no random bits", .where = "the making of an id"};
  }
  std::string id(prefix);
  uint32_t bits = 0;
  int count = 0;
  for (const uint8_t byte : random) {
    bits = (bits << 8) | byte;
    for (count += 8; count >= kDigitBits; count -= kDigitBits) {
      id += kDigits[(bits >> (count - kDigitBits)) & 31U];
    }
  }
  id += kDigits[(bits << (kDigitBits - count)) & 31U];  // the three that are left
  return id;
}

}  // namespace mooring
