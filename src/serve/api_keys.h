// The keys that may use the API: a file with one a line, of at least kMinKeyBytes. Kept as digests,
// and compared in a time that says nothing of them.
//
// Thread rule: const once made.
#ifndef MOORING_SERVE_API_KEYS_H_
#define MOORING_SERVE_API_KEYS_H_

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mooring {

class ApiKeys {
 public:
  static constexpr size_t kMinKeyBytes = 16;

  // No keys: everyone may, and all are one owner.
  ApiKeys() = default;
  // Lines that are empty or begin with '#' are passed over. kConfig for a file without keys or with
  // one that is too short; the message never shows it.
  static Result<ApiKeys> Read(const std::filesystem::path& path);

  bool needed() const { return !digests_.empty(); }
  size_t count() const { return digests_.size(); }
  // The owner that an Authorization header stands for; nothing when it stands for none.
  std::optional<std::string> OwnerOf(std::string_view authorization) const;

 private:
  using Digest = std::array<uint8_t, 32>;
  static Digest DigestOf(std::string_view key);
  std::vector<Digest> digests_;
};

}  // namespace mooring

#endif  // MOORING_SERVE_API_KEYS_H_
