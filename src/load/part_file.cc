#include "load/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "base/checked.h"
#include "load/cache_error.h"

namespace mooring {

Status SyncFolder(const std::filesystem::path& folder) {
  const OwnedDescriptor opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened.ok() || ::fsync(opened.get()) != 0) {
    return CacheError("cannot sync the model cache", folder, errno);
  }
  return {};
}

Result<PartFile> PartFile::Create(const std::filesystem::path& path) {
  OwnedDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!file.ok()) return CacheError("cannot create a file in the model cache", path, errno);
  return PartFile(path, std::move(file));
}

PartFile::PartFile(std::filesystem::path path, OwnedDescriptor file)
    : path_(std::move(path)), file_(std::move(file)) {}

PartFile::PartFile(PartFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), file_(std::move(other.file_)) {}

PartFile::~PartFile() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Status PartFile::CheckRoomFor(uint64_t bytes) const {
  struct statvfs disk {};
  if (::fstatvfs(file_.get(), &disk) != 0) return {};  // the writes will tell
  const CheckedSize room = CheckedSize(disk.f_bavail) * disk.f_frsize;
  if (!room.valid() || bytes <= *room.value()) return {};
  Error error = CacheError("not enough room for the model", path_, ENOSPC);
  error.expected = fmt::format("{} free bytes", bytes);
  error.found = fmt::format("{}", *room.value());
  return error;
}

Status PartFile::Append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file_.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CacheError("cannot write the model", path_, errno);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
  return {};
}

Status PartFile::Sync() {
  if (::fsync(file_.get()) != 0) return CacheError("cannot sync the model", path_, errno);
  return {};
}

Status PartFile::Publish(const std::filesystem::path& path) {
  MOORING_RETURN_IF_ERROR(SetAside(path));
  return SyncFolder(path.parent_path());
}

Status PartFile::SetAside(const std::filesystem::path& path) {
  if (file_.Close() != 0) return CacheError("cannot close the model", path_, errno);
  if (::rename(path_.c_str(), path.c_str()) != 0) {
    return CacheError("cannot rename the model", path_, errno);
  }
  path_.clear();
  return {};
}

}  // namespace mooring
