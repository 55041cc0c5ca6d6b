// The thread that runs an engine: tasks that others post, then a step, and again; asleep when there
// is neither. Whatever touches the engine beside Submit and Cancel is a task.
//
// Thread rule: Post from any thread. Tasks and `after_step` run on the thread itself.
#ifndef MOORING_TALK_ENGINE_THREAD_H_
#define MOORING_TALK_ENGINE_THREAD_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine.h"

namespace mooring {

class EngineThread {
 public:
  using Task = std::function<void()>;

  // `engine` outlives this. `after_step` runs after each step, also one that found nothing to do (a
  // turn that was cancelled ends in such a one), and says whether it gave the engine new work.
  EngineThread(Engine* engine, std::function<bool()> after_step);
  // Runs what was posted, and ends the thread; turns that still run are left where they are.
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

  // Tasks run in the order of their posting. Who posts bounds how many there are.
  void Post(Task task);

 private:
  void Run();

  Engine* engine_;
  std::function<bool()> after_step_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<Task> tasks_;  // guarded by mutex_, as is stopping_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mooring

#endif  // MOORING_TALK_ENGINE_THREAD_H_
