#include "talk/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mooring {
namespace {

std::vector<int> Drain(FairQueue<int>* queue) {
  std::vector<int> order;
  while (!queue->empty()) {
    order.push_back(queue->front());
    queue->Pop();
  }
  return order;
}

TEST(FairQueueTest, OwnersComeInTurn) {
  FairQueue<int> queue;
  for (const int item : {1, 2, 3, 4}) queue.Push("many", item);
  queue.Push("one", 10);
  queue.Push("two", 20);
  queue.Push("two", 21);
  EXPECT_THAT(Drain(&queue), testing::ElementsAre(1, 10, 20, 2, 21, 3, 4));
}

TEST(FairQueueTest, WhoComesBackStandsBehindTheOthers) {
  FairQueue<int> queue;
  queue.Push("a", 1);
  queue.Push("b", 2);
  queue.Push("b", 3);
  queue.Pop();
  queue.Push("a", 4);
  EXPECT_THAT(Drain(&queue), testing::ElementsAre(2, 4, 3));
}

TEST(FairQueueTest, WhatIsTakenOutLeavesTheOrder) {
  FairQueue<int> queue;
  for (const int item : {1, 2, 3}) queue.Push("a", item);
  queue.Push("b", 4);
  EXPECT_THAT(queue.Extract([](int item) { return item % 2 == 0; }),
              testing::UnorderedElementsAre(2, 4));
  EXPECT_THAT(Drain(&queue), testing::ElementsAre(1, 3));
}

}  // namespace
}  // namespace mooring
