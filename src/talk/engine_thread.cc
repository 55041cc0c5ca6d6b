#include "talk/engine_thread.h"

#include <utility>

namespace mooring {

EngineThread::EngineThread(Engine* engine, std::function<bool()> after_step)
    : engine_(engine), after_step_(std::move(after_step)), thread_([this] { Run(); }) {}

EngineThread::~EngineThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  posted_.notify_one();
  thread_.join();
}

void EngineThread::Post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  posted_.notify_one();
}

void EngineThread::Run() {
  std::vector<Task> tasks;
  bool worked = true;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      posted_.wait(lock, [&] { return worked || stopping_ || !tasks_.empty(); });
      if (stopping_ && tasks_.empty()) return;
      std::swap(tasks, tasks_);
    }
    for (const Task& task : tasks) task();
    tasks.clear();
    worked = engine_->Step();
    worked |= after_step_();
  }
}

}  // namespace mooring
