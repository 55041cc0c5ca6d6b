#include "memory/page_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checked.h"
#include "base/files.h"

namespace mooring {
namespace {

// Memory that could be had now without swapping, in bytes; 0 when unknown.
uint64_t AvailableBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return 0;
  return static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes);
}

Error NoMemory(const std::string& needed, uint64_t available) {
  return Error{.kind = ErrorKind::kResources,
               .what = "the windows do not fit into memory",
               .where = "page pool",
               .expected = fmt::format("at most {} bytes in all", available),
               .found = needed,
               .remedy = "use a smaller --window or fewer conversations"};
}

}  // namespace

Result<std::unique_ptr<PagePool>> PagePool::Create(size_t page_bytes, size_t page_count) {
  CHECK(page_bytes > 0 && page_count > 0 && page_count < UINT32_MAX);
  const uint64_t available = AvailableBytes();
  const auto total = (CheckedSize(page_bytes) * page_count).value();
  if (!total) return NoMemory("more than 64 bits can say", available);
  if (available != 0 && *total > available) {
    return NoMemory(fmt::format("{} bytes", *total), available);
  }
  void* slab = ::mmap(nullptr, *total, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (slab == MAP_FAILED) {
    return NoMemory(fmt::format("{} bytes ({})", *total, ErrnoText(errno)), available);
  }
  return std::unique_ptr<PagePool>(
      new PagePool(static_cast<std::byte*>(slab), page_bytes, page_count));
}

PagePool::PagePool(std::byte* slab, size_t page_bytes, size_t page_count)
    : slab_(slab), page_bytes_(page_bytes), holders_(page_count, 0) {
  free_.reserve(page_count);
  for (size_t i = page_count; i > 0; --i) free_.push_back(static_cast<PageIndex>(i - 1));
}

PagePool::~PagePool() { ::munmap(slab_, slab_bytes()); }

std::optional<PageIndex> PagePool::Take() {
  if (free_.empty()) return std::nullopt;
  const PageIndex page = free_.back();
  free_.pop_back();
  DCHECK(holders_[page] == 0);
  holders_[page] = 1;
  std::memset(data(page), 0, page_bytes_);
  return page;
}

void PagePool::Hold(PageIndex page) {
  CHECK(holders_[page] > 0, "page {} is free", page);
  if (++holders_[page] == 2) ++shared_count_;
}

void PagePool::Release(PageIndex page) {
  CHECK(holders_[page] > 0, "page {} is free", page);
  --holders_[page];
  if (holders_[page] == 1) --shared_count_;
  if (holders_[page] == 0) free_.push_back(page);
}

}  // namespace mooring
