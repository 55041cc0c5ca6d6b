// A fixed set of workers that run the items of one loop at a time.
//
// Which thread takes which item is left to chance; results must therefore not depend on it (the
// law: numbers never depend on the thread count). Each item writes only what belongs to it.
//
// Workers spin briefly between loops, because a model step is a few hundred loops of some
// microseconds, and then sleep on a futex, so that an idle process takes no processor.
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
  // Does not allocate. Not reentrant.
  void Run(int64_t item_count, FunctionRef<void(int64_t item, int thread)> task);

 private:
  void WorkerLoop(int thread);
  void TakeItems(int thread);

  std::vector<std::thread> workers_;
  const FunctionRef<void(int64_t, int)>* task_ = nullptr;
  int64_t item_count_ = 0;
  alignas(64) std::atomic<int64_t> next_item_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};    // odd/even is irrelevant; a change is work
  alignas(64) std::atomic<uint32_t> running_{0};  // workers that have not finished this epoch
  std::atomic<bool> stopping_{false};
};

// How many threads a fresh process should use: the cores it may run on, less what a cgroup quota
// withholds, at least 1.
int UsableCoreCount();

}  // namespace mooring

#endif  // MOORING_BASE_THREAD_POOL_H_
