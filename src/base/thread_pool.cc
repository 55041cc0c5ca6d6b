#include "base/thread_pool.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "base/check.h"

namespace mooring {
namespace {

// About 30 us on a 3 GHz core: longer than the gaps between the loops of a step, shorter than a
// person can notice as load.
constexpr int kSpinCount = 4000;

void SpinPause() { __builtin_ia32_pause(); }

// Waits until `value` differs from `seen`, spinning first.
uint32_t AwaitChange(const std::atomic<uint32_t>& value, uint32_t seen) {
  for (int i = 0; i < kSpinCount; ++i) {
    const uint32_t now = value.load(std::memory_order_acquire);
    if (now != seen) return now;
    SpinPause();
  }
  value.wait(seen, std::memory_order_acquire);
  return value.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int thread_count) {
  CHECK(thread_count >= 1);
  workers_.reserve(static_cast<size_t>(thread_count - 1));
  for (int thread = 1; thread < thread_count; ++thread) {
    workers_.emplace_back([this, thread] { WorkerLoop(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::TakeItems(int thread) {
  uint32_t done = 0;
  uint64_t ticket = ticket_.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(ticket) < ticket >> 32) {
    if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    (*task_)(static_cast<uint32_t>(ticket), thread);
    ++done;
    ticket = ticket_.load(std::memory_order_acquire);
  }
  // After this the loop may end, and with it everything that its items could read.
  if (done > 0) {
    done_.fetch_add(done, std::memory_order_acq_rel);
    done_.notify_one();
  }
}

void ThreadPool::Run(int64_t item_count, FunctionRef<void(int64_t, int)> task) {
  if (workers_.empty() || item_count <= 1) {
    for (int64_t item = 0; item < item_count; ++item) task(item, 0);
    return;
  }
  const auto count = static_cast<uint32_t>(item_count);
  task_ = &task;
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(static_cast<uint64_t>(count) << 32, std::memory_order_release);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  TakeItems(0);
  for (uint32_t done = done_.load(std::memory_order_acquire); done != count;) {
    done = AwaitChange(done_, done);
  }
}

void ThreadPool::WorkerLoop(int thread) {
  uint32_t seen = 0;
  for (;;) {
    seen = AwaitChange(epoch_, seen);
    if (stopping_.load(std::memory_order_acquire)) return;
    TakeItems(thread);
  }
}

int UsableCoreCount() {
  int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) cores = std::max(1, CPU_COUNT(&set));
  // cgroup v2: "max 100000" or "<quota> <period>", both in microseconds.
  std::ifstream quota_file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (quota_file >> quota >> period && quota != "max" && period > 0) {
    const double limit = std::atof(quota.c_str()) / period;
    if (limit > 0) cores = std::min(cores, std::max(1, static_cast<int>(limit + 0.5)));
  }
  return cores;
}

}  // namespace mooring
