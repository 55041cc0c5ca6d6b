// A thread for what takes longer than the server's own may be kept: parsing, rendering, encoding.
//
// Thread rule: Post from any thread.
#ifndef MOORING_SERVE_WORK_QUEUE_H_
#define MOORING_SERVE_WORK_QUEUE_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace mooring {

class WorkQueue {
 public:
  explicit WorkQueue(size_t limit);
  ~WorkQueue();  // drops what waits
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False, and nothing done, when `limit` tasks wait.
  bool Post(std::function<void()> task);

 private:
  void Run();

  const size_t limit_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> tasks_;  // guarded by mutex_, as is stopping_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mooring

#endif  // MOORING_SERVE_WORK_QUEUE_H_
