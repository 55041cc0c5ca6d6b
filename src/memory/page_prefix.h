// The first pages of a window, held for windows to come that begin with the same tokens: what a
// page holds follows from the tokens up to its end, so that they would write the same.
//
// Only pages that are full, or that end with the anchors: nobody writes into them again.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_MEMORY_PAGE_PREFIX_H_
#define MOORING_MEMORY_PAGE_PREFIX_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "memory/page_pool.h"

namespace mooring {

class PagePrefix {
 public:
  // Holds `pages` [heads][page_count], which are held already, once more. `pool` outlives this.
  PagePrefix(PagePool* pool, int64_t tokens, std::vector<PageIndex> pages)
      : pool_(pool), tokens_(tokens), pages_(std::move(pages)) {
    for (const PageIndex page : pages_) pool_->Hold(page);
  }
  ~PagePrefix() {
    for (const PageIndex page : pages_) pool_->Release(page);
  }
  PagePrefix(PagePrefix&& other) noexcept
      : pool_(other.pool_), tokens_(other.tokens_), pages_(std::exchange(other.pages_, {})) {}
  PagePrefix& operator=(PagePrefix&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(tokens_, other.tokens_);
    std::swap(pages_, other.pages_);
    return *this;
  }

  // How many tokens the pages hold, from the beginning of the log on.
  int64_t tokens() const { return tokens_; }
  const std::vector<PageIndex>& pages() const { return pages_; }

 private:
  PagePool* pool_;
  int64_t tokens_;
  std::vector<PageIndex> pages_;
};

}  // namespace mooring

#endif  // MOORING_MEMORY_PAGE_PREFIX_H_
