#include "base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace mooring {
namespace {

constexpr size_t kReadStepBytes = 1 << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (owned_ && fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  void Release() { owned_ = false; }
  int Close() {
    owned_ = false;
    return ::close(fd_);
  }

 private:
  int fd_;
  bool owned_ = true;
};

Error FileError(std::string what, const std::filesystem::path& path, int error_number) {
  return Error{.kind = KindOfErrno(error_number),
               .what = std::move(what),
               .where = path.string(),
               .found = ErrnoText(error_number)};
}

Status WriteAndSync(int fd, std::span<const std::byte> content, const std::filesystem::path& path) {
  while (!content.empty()) {
    const ssize_t count = ::write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return FileError("cannot write the file", path, errno);
    content = content.subspan(static_cast<size_t>(count));
  }
  if (::fsync(fd) != 0) return FileError("cannot sync the file", path, errno);
  return {};
}

}  // namespace

std::string ErrnoText(int error_number) {
  return std::error_code(error_number, std::generic_category()).message();
}

ErrorKind KindOfErrno(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EFBIG:
      return ErrorKind::kResources;
    case ENOENT:
    case ENOTDIR:
      return ErrorKind::kNotFound;
    default:
      return ErrorKind::kFailed;
  }
}

Result<std::string> ReadFile(const std::filesystem::path& path, uint64_t limit_bytes) {
  const bool is_stdin = path == "-";
  Descriptor file(is_stdin ? STDIN_FILENO : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (is_stdin) file.Release();
  if (file.get() < 0) return FileError("cannot open the file", path, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return FileError("cannot read the file", path, errno);
  if (S_ISDIR(info.st_mode)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "cannot read the file",
                 .where = path.string(),
                 .expected = "a file",
                 .found = "a folder"};
  }
  std::string content;
  for (;;) {
    const size_t used = content.size();
    content.resize(used + kReadStepBytes);
    const ssize_t count = ::read(file.get(), content.data() + used, kReadStepBytes);
    const int error_number = errno;
    content.resize(used + static_cast<size_t>(count > 0 ? count : 0));
    if (count < 0 && error_number == EINTR) continue;
    if (count < 0) return FileError("cannot read the file", path, error_number);
    if (count == 0) return content;
    if (content.size() > limit_bytes) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "the file is too long",
                   .where = path.string(),
                   .expected = fmt::format("at most {} bytes", limit_bytes),
                   .found = "more"};
    }
  }
}

Status WriteFileAtomically(const std::filesystem::path& path, std::span<const std::byte> content) {
  std::filesystem::path folder = path.parent_path();
  if (folder.empty()) folder = ".";
  std::string temporary = (folder / (path.filename().string() + ".tmp.XXXXXX")).string();
  Descriptor file(::mkostemp(temporary.data(), O_CLOEXEC));
  if (file.get() < 0) return FileError("cannot create a file in the folder", folder, errno);
  Status written = WriteAndSync(file.get(), content, path);
  if (file.Close() != 0 && written.ok()) written = FileError("cannot close the file", path, errno);
  if (written.ok() && ::rename(temporary.c_str(), path.c_str()) != 0) {
    written = FileError("cannot rename the finished file", path, errno);
  }
  if (!written.ok()) {
    ::unlink(temporary.c_str());
    return written;
  }
  Descriptor directory(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0 || ::fsync(directory.get()) != 0) {
    return FileError("cannot sync the folder", folder, errno);
  }
  return {};
}

}  // namespace mooring
