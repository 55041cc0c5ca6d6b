// All pages there are, cut at start from one slab.
//
// A page is a fixed number of token slots of one kv head of one layer; the pool knows only its
// size. Pages are counted: a page that somebody holds cannot be taken, and it is free again when
// its last holder releases it. Running out is an answer (Take returns nothing), not an error. Any
// free page serves any taker, so the slab cannot fragment.
//
// The slab is touched at start: from then on its memory neither grows nor shrinks. A page is zeroed
// when it is taken, so that nothing of its last holder can leak into a file or another
// conversation.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_MEMORY_PAGE_POOL_H_
#define MOORING_MEMORY_PAGE_POOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/result.h"

namespace mooring {

using PageIndex = uint32_t;

class PagePool {
 public:
  // kResources when the machine cannot give the memory; the message has both numbers.
  static Result<std::unique_ptr<PagePool>> Create(size_t page_bytes, size_t page_count);
  ~PagePool();
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // A zeroed page with one holder, or nothing when all are held.
  std::optional<PageIndex> Take();
  // One more holder. REQUIRES: the page is held.
  void Hold(PageIndex page);
  // One holder less. REQUIRES: the page is held.
  void Release(PageIndex page);

  std::byte* data(PageIndex page) { return slab_ + static_cast<size_t>(page) * page_bytes_; }
  uint32_t holder_count(PageIndex page) const { return holders_[page]; }
  size_t page_bytes() const { return page_bytes_; }
  size_t page_count() const { return holders_.size(); }
  size_t free_count() const { return free_.size(); }
  // Pages that have more than one holder.
  size_t shared_count() const { return shared_count_; }
  size_t slab_bytes() const { return page_bytes_ * holders_.size(); }

 private:
  PagePool(std::byte* slab, size_t page_bytes, size_t page_count);

  std::byte* slab_;
  size_t page_bytes_;
  std::vector<uint32_t> holders_;  // per page
  size_t shared_count_ = 0;
  std::vector<PageIndex> free_;  // a stack: the page used last is still in the cache
};

}  // namespace mooring

#endif  // MOORING_MEMORY_PAGE_POOL_H_
