// Reads little-endian fields from bytes that strangers wrote, front to back.
//
// Invariant: offset() <= the size of the bytes; a read that would pass the end fails, moves nothing
// and says where. Every reader's error goes through Invalid, so each one names file, field, byte
// offset, expected and found.
//
// Thread rule: one thread.
#ifndef MOORING_LOAD_BYTE_CURSOR_H_
#define MOORING_LOAD_BYTE_CURSOR_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "base/result.h"

namespace mooring {

static_assert(std::endian::native == std::endian::little, "files are read as they lie in memory");

class ByteCursor {
 public:
  // `bytes` outlives the cursor; `path` is for messages.
  ByteCursor(std::span<const std::byte> bytes, std::string path)
      : bytes_(bytes), path_(std::move(path)) {}

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }

  // The next number. `field` says in words what is being read.
  template <typename T>
  requires std::is_arithmetic_v<T> &&
      (!std::is_same_v<T, bool>)Result<T> Read(std::string_view field) {
    if (remaining() < sizeof(T)) return Truncated(field, sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }

  // A length as u64 and that many bytes, at least `least` and at most `most`; a view into the
  // bytes.
  Result<std::string_view> ReadString(std::string_view field, uint64_t least, uint64_t most);

  // A kModelInvalid error about `field` at byte `offset`.
  Error Invalid(std::string_view field, uint64_t offset, std::string expected,
                std::string found) const;

 private:
  Error Truncated(std::string_view field, uint64_t wanted_bytes) const;

  std::span<const std::byte> bytes_;
  std::string path_;
  uint64_t offset_ = 0;
};

}  // namespace mooring

#endif  // MOORING_LOAD_BYTE_CURSOR_H_
