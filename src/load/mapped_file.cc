#include "load/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/files.h"

namespace mooring {
namespace {

Error OpenError(const std::filesystem::path& path, int error_number) {
  return Error{.kind = KindOfErrno(error_number),
               .what = "cannot open the model file",
               .where = path.string(),
               .found = ErrnoText(error_number)};
}

// An Error when the open file is none that can be mapped.
Status CheckMappable(const struct stat& info, const std::filesystem::path& path) {
  Error error{.kind = ErrorKind::kModelInvalid,
              .what = "not a model file",
              .where = path.string(),
              .expected = "a file"};
  if (S_ISDIR(info.st_mode)) {
    error.found = "a folder";
    error.remedy = "name the file inside the folder";
    return error;
  }
  if (!S_ISREG(info.st_mode)) {
    error.found = "a device or pipe";
    return error;
  }
  if (info.st_size <= 0) {
    error.found = "an empty file";
    return error;
  }
  return {};
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::filesystem::path& path) {
  // Without O_NONBLOCK a named pipe would hang here before it can be refused.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return OpenError(path, errno);
  MappedFile file(path, descriptor, {});
  struct stat info {};
  if (::fstat(descriptor, &info) != 0) return OpenError(path, errno);
  MOORING_RETURN_IF_ERROR(CheckMappable(info, path));
  const auto size = static_cast<size_t>(info.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) return OpenError(path, errno);
  file.bytes_ = {static_cast<const std::byte*>(address), size};
  return file;
}

MappedFile::MappedFile(std::filesystem::path path, int descriptor, std::span<const std::byte> bytes)
    : path_(std::move(path)), descriptor_(descriptor), bytes_(bytes) {}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    Release();
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    bytes_ = std::exchange(other.bytes_, {});
  }
  return *this;
}

MappedFile::~MappedFile() { Release(); }

void MappedFile::Release() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
  bytes_ = {};
  descriptor_ = -1;
}

void MappedFile::Advise(std::span<const std::byte> part, int advice) const {
  if (part.empty()) return;
  CHECK(part.data() >= bytes_.data() && part.data() + part.size() <= bytes_.data() + bytes_.size(),
        "advice about bytes outside of {}", path_.string());
  const auto page_bytes = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) & ~(page_bytes - 1);
  const auto end = reinterpret_cast<uintptr_t>(part.data() + part.size());
  // A hint only: nothing depends on whether the system takes it.
  (void)::madvise(reinterpret_cast<void*>(begin), end - begin, advice);  // NOLINT: page address
}

void MappedFile::AdviseWillNeed(std::span<const std::byte> part) const {
  Advise(part, MADV_WILLNEED);
}

void MappedFile::AdviseDontNeed(std::span<const std::byte> part) const {
  Advise(part, MADV_DONTNEED);
}

}  // namespace mooring
