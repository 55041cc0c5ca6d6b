// Vectors that leave nothing behind: every byte that one gives back, whole or in part, is
// overwritten first. What a person asked to forget must not lie on in freed memory.
//
// They grow by an eighth, not to the double: what holds them counts its bytes.
//
// Thread rule: as std::vector.
#ifndef MOORING_TALK_WIPED_VECTOR_H_
#define MOORING_TALK_WIPED_VECTOR_H_

// explicit_bzero, which no compiler takes for a store that nobody reads, is not in <cstring>.
#include <string.h>  // NOLINT(modernize-deprecated-headers)

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace mooring {

template <typename T>
struct WipingAllocator {
  using value_type = T;

  WipingAllocator() = default;
  template <typename U>
  WipingAllocator(const WipingAllocator<U>& /*other*/) {}  // NOLINT: implicit, as allocators are

  T* allocate(size_t count) { return std::allocator<T>().allocate(count); }
  void deallocate(T* items, size_t count) {
    ::explicit_bzero(static_cast<void*>(items), count * sizeof(T));
    std::allocator<T>().deallocate(items, count);
  }
  friend bool operator==(const WipingAllocator&, const WipingAllocator&) = default;
};

template <typename T>
using WipedVector = std::vector<T, WipingAllocator<T>>;

// The capacity that ReserveFor gives a vector that is to take `extra` more items.
template <typename T>
size_t CapacityFor(const WipedVector<T>& items, size_t extra, size_t least) {
  if (items.capacity() - items.size() >= extra) return items.capacity();
  return items.size() + std::max({extra, least, items.size() / 8});
}

// Makes room for `extra` more items; when there is none, for at least `least` more.
template <typename T>
void ReserveFor(WipedVector<T>* items, size_t extra, size_t least) {
  items->reserve(CapacityFor(*items, extra, least));
}

// Keeps the first `size` items. REQUIRES: there are so many.
template <typename T>
void ShrinkWiped(WipedVector<T>* items, size_t size) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (size == items->size()) return;
  ::explicit_bzero(static_cast<void*>(items->data() + size), (items->size() - size) * sizeof(T));
  items->resize(size);
}

}  // namespace mooring

#endif  // MOORING_TALK_WIPED_VECTOR_H_
