// A bump allocator over one fixed block: plans and other short-lived arrays are built in it without
// touching the heap, and all of them end at Reset.
//
// Thread rule: one thread at a time.
#ifndef MOORING_BASE_ARENA_H_
#define MOORING_BASE_ARENA_H_

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "base/check.h"

namespace mooring {

class Arena {
 public:
  explicit Arena(size_t capacity_bytes)
      : block_(std::make_unique<std::byte[]>(capacity_bytes)), capacity_bytes_(capacity_bytes) {}

  // An uninitialised array. Running out is a mistake of ours: owners size the arena by their
  // limits.
  template <typename T>
  std::span<T> Make(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    const size_t start = (used_bytes_ + alignof(T) - 1) / alignof(T) * alignof(T);
    CHECK(start <= capacity_bytes_ && count <= (capacity_bytes_ - start) / sizeof(T),
          "arena of {} bytes is full", capacity_bytes_);
    used_bytes_ = start + count * sizeof(T);
    return {reinterpret_cast<T*>(block_.get() + start), count};
  }
  void Reset() { used_bytes_ = 0; }

 private:
  std::unique_ptr<std::byte[]> block_;
  size_t capacity_bytes_;
  size_t used_bytes_ = 0;
};

}  // namespace mooring

#endif  // MOORING_BASE_ARENA_H_
