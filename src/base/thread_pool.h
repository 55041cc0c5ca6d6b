// A fixed set of workers that run the items of one loop at a time.
//
// Which thread takes which item is left to chance; results must therefore not depend on it (the
// law: numbers never depend on the thread count). Each item writes only what belongs to it.
//
// Workers spin briefly between loops, because a model step is a few hundred loops of some
// microseconds, and then sleep on a futex, so that an idle process takes no processor. Run waits
// for items, not for workers: one that another process keeps from its core is not missed.
//
// Thread rule: one thread at a time calls Run (the engine's); the constructor and destructor run
// while nobody does.
#ifndef MOORING_BASE_THREAD_POOL_H_
#define MOORING_BASE_THREAD_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace mooring {

class ThreadPool {
 public:
  // `thread_count` includes the caller of Run; 1 starts no thread at all. REQUIRES: >= 1.
  explicit ThreadPool(int thread_count);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int thread_count() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls task(item, thread) once for each item in [0, item_count) and returns when all are done.
  // `thread` is in [0, thread_count()), fixed for the duration of one item: an index for scratch.
  // Does not allocate. Not reentrant. REQUIRES: item_count < 2^31.
  void Run(int64_t item_count, FunctionRef<void(int64_t item, int thread)> task);

 private:
  void WorkerLoop(int thread);
  // Items are claimed until none is left; what was claimed is done on return.
  void TakeItems(int thread);

  std::vector<std::thread> workers_;
  // Written while nothing can be claimed, read by whoever has claimed an item.
  const FunctionRef<void(int64_t, int)>* task_ = nullptr;
  // The number of items in the upper half, the next one in the lower: a claim that succeeds is one
  // of the loop that runs now, however long the thread had slept.
  alignas(64) std::atomic<uint64_t> ticket_{0};
  alignas(64) std::atomic<uint32_t> done_{0};   // items of this loop
  alignas(64) std::atomic<uint32_t> epoch_{0};  // a change is work
  std::atomic<bool> stopping_{false};
};

// How many threads a fresh process should use: the cores it may run on, less what a cgroup quota
// withholds, at least 1.
int UsableCoreCount();

}  // namespace mooring

#endif  // MOORING_BASE_THREAD_POOL_H_
