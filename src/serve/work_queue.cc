#include "serve/work_queue.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace mooring {

WorkQueue::WorkQueue(size_t limit) : limit_(limit), thread_([this] { Run(); }) {}

WorkQueue::~WorkQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

bool WorkQueue::Post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    if (tasks_.size() >= limit_) return false;
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
  return true;
}

void WorkQueue::Run() {
  for (;;) {
    std::function<void()> task;
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    // Only memory can run out here; the request is dropped, and its reply says so.
    try {
      task();
    } catch (const std::exception& error) {
      spdlog::error("a request failed: {}", error.what());
    }
  }
}

}  // namespace mooring
