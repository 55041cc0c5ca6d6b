#include "load/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "load/cache_error.h"

namespace mooring {

Result<FileLock> FileLock::Take(const std::filesystem::path& path,
                                const std::function<bool()>& keep_waiting) {
  constexpr std::chrono::milliseconds kPause(100);
  OwnedDescriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!file.ok()) return CacheError("cannot create the lock file", path, errno);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return CacheError("cannot lock the file", path, errno);
    }
    if (keep_waiting && !keep_waiting()) {
      return Error{.kind = ErrorKind::kInterrupted,
                   .what = "stopped while another process was busy with the same model",
                   .where = path.string()};
    }
    std::this_thread::sleep_for(kPause);
  }
  return FileLock(std::move(file));
}

}  // namespace mooring
