#include "memory/page_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mooring {
namespace {

std::unique_ptr<PagePool> MakePool(size_t pages) {
  auto pool = PagePool::Create(256, pages);
  EXPECT_TRUE(pool.ok());
  return std::move(pool).value();
}

TEST(PagePool, RunningOutIsAnAnswer) {
  const auto pool = MakePool(3);
  EXPECT_TRUE(pool->Take() && pool->Take() && pool->Take());
  EXPECT_FALSE(pool->Take());
  EXPECT_EQ(pool->free_count(), 0U);
}

TEST(PagePool, AHeldPageCannotBeTaken) {
  const auto pool = MakePool(1);
  const PageIndex page = *pool->Take();
  pool->Hold(page);
  EXPECT_EQ(pool->shared_count(), 1U);
  pool->Hold(page);
  pool->Release(page);
  EXPECT_EQ(pool->shared_count(), 1U);
  pool->Release(page);
  EXPECT_EQ(pool->shared_count(), 0U);
  EXPECT_FALSE(pool->Take());
  pool->Release(page);
  EXPECT_EQ(pool->Take(), page);
}

TEST(PagePool, NothingOfTheLastHolderIsLeft) {
  const auto pool = MakePool(1);
  PageIndex page = *pool->Take();
  std::fill_n(pool->data(page), pool->page_bytes(), std::byte{0xAB});
  pool->Release(page);
  page = *pool->Take();
  EXPECT_TRUE(std::all_of(pool->data(page), pool->data(page) + pool->page_bytes(),
                          [](std::byte b) { return b == std::byte{0}; }));
}

TEST(PagePool, NeverFragments) {
  const auto pool = MakePool(500);
  std::mt19937_64 random(11);
  std::vector<PageIndex> held;
  for (int i = 0; i < 200000; ++i) {
    if (held.empty() || (random() % 2 == 0 && pool->free_count() > 0)) {
      held.push_back(*pool->Take());
    } else {
      std::swap(held[random() % held.size()], held.back());
      if (random() % 4 == 0) {
        pool->Hold(held.back());
        pool->Release(held.back());
      }
      pool->Release(held.back());
      held.pop_back();
    }
    ASSERT_EQ(held.size() + pool->free_count(), pool->page_count());
  }
  // Whatever happened, every free page can be taken.
  for (size_t left = pool->free_count(); left > 0; --left) ASSERT_TRUE(pool->Take());
}

TEST(PagePool, RefusesMoreThanTheMachineHas) {
  const auto pool = PagePool::Create(size_t{1} << 40, 1 << 20);
  ASSERT_FALSE(pool.ok());
  EXPECT_EQ(pool.error().kind, ErrorKind::kResources);
}

}  // namespace
}  // namespace mooring
