#include "talk/state_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "base/files.h"

namespace mooring {
namespace {

Error LockError(std::string what, const std::filesystem::path& path, int error_number) {
  return Error{.kind = KindOfErrno(error_number) == ErrorKind::kResources ? ErrorKind::kResources
                                                                          : ErrorKind::kFailed,
               .what = std::move(what),
               .where = path.string(),
               .found = ErrnoText(error_number),
               .remedy = "choose a state folder that this user may write"};
}

std::string HolderOf(int file) {
  std::array<char, 32> text = {};
  const ssize_t count = ::pread(file, text.data(), text.size(), 0);
  std::string holder(text.data(), static_cast<size_t>(count > 0 ? count : 0));
  if (holder.find_first_not_of("0123456789\n") != std::string::npos) holder.clear();
  holder = holder.substr(0, holder.find('\n'));
  return holder.empty() ? "another process" : "process " + holder;
}

}  // namespace

Result<StateLock> StateLock::Take(const std::filesystem::path& folder) {
  constexpr mode_t kPrivateFile = 0600;
  const std::filesystem::path path = folder / kFileName;
  OwnedDescriptor file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivateFile));
  if (!file.ok()) return LockError("cannot create the state folder's lock", path, errno);
  while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno != EWOULDBLOCK) return LockError("cannot lock the state folder", path, errno);
    const std::string holder = HolderOf(file.get());
    return Error{.kind = ErrorKind::kStateHeld,
                 .what = "the state folder is held by " + holder,
                 .where = folder.string(),
                 .remedy = "end it first, or choose another state folder"};
  }
  const std::string holder = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file.get(), 0) != 0 || ::pwrite(file.get(), holder.data(), holder.size(), 0) !=
                                             static_cast<ssize_t>(holder.size())) {
    return LockError("cannot write the state folder's lock", path, errno);
  }
  return StateLock(std::move(file));
}

}  // namespace mooring
