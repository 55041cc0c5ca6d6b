#include "talk/store_queue.h"

#include <utility>

namespace mooring {

StoreQueue::StoreQueue(Store* store) : store_(store), thread_([this] { Run(); }) {}

StoreQueue::~StoreQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void StoreQueue::Post(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  posted_.notify_one();
}

void StoreQueue::Run() {
  std::vector<Job> jobs;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return stopping_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      std::swap(jobs, jobs_);
    }
    const auto run_all = [&] {
      for (const Job& job : jobs) job.run(*store_);
    };
    const Status durable = store_->Group(run_all);
    for (const Job& job : jobs) job.then(durable);
    jobs.clear();
  }
}

}  // namespace mooring
