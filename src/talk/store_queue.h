// The thread that writes to the store: jobs that others post, as many as have come in one group, so
// that they share a sync. What is to follow a job runs once the group is durable.
//
// Thread rule: Post from any thread; jobs and what follows them run on the thread itself.
#ifndef MOORING_TALK_STORE_QUEUE_H_
#define MOORING_TALK_STORE_QUEUE_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "talk/store.h"

namespace mooring {

class StoreQueue {
 public:
  struct Job {
    std::function<void(Store&)> run;
    std::function<void(const Status& durable)> then;  // an error: nothing of the job was kept
  };

  // `store` outlives this.
  explicit StoreQueue(Store* store);
  // Runs what was posted, and ends the thread.
  ~StoreQueue();
  StoreQueue(const StoreQueue&) = delete;
  StoreQueue& operator=(const StoreQueue&) = delete;

  // Jobs run in the order of their posting. Who posts bounds how many there are.
  void Post(Job job);

 private:
  void Run();

  Store* store_;
  std::mutex mutex_;
  std::condition_variable posted_;
  std::vector<Job> jobs_;  // guarded by mutex_, as is stopping_
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace mooring

#endif  // MOORING_TALK_STORE_QUEUE_H_
