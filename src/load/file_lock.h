// A lock between processes (and between threads): an advisory flock on a file of its own. It is let
// go when its owner ends, however that happens; the empty file stays.
//
// Thread rule: any thread may take one.
#ifndef MOORING_LOAD_FILE_LOCK_H_
#define MOORING_LOAD_FILE_LOCK_H_

#include <filesystem>
#include <functional>

#include "base/owned_descriptor.h"
#include "base/result.h"

namespace mooring {

class FileLock {
 public:
  // Waits for the lock. While another holds it, `keep_waiting` is called about ten times a second;
  // false stops with kInterrupted. An empty one waits for ever.
  static Result<FileLock> Take(const std::filesystem::path& path,
                               const std::function<bool()>& keep_waiting = {});

 private:
  explicit FileLock(OwnedDescriptor file) : file_(std::move(file)) {}
  OwnedDescriptor file_;
};

}  // namespace mooring

#endif  // MOORING_LOAD_FILE_LOCK_H_
