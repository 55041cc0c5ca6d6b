#include "talk/snapshot_files.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/files.h"
#include "talk/byte_stream.h"
#include "talk/checked_container.h"

namespace mooring {
namespace {

constexpr std::array<std::string_view, 2> kTags = {"SNAP", "WIND"};
constexpr std::string_view kExtension = ".pages";

}  // namespace

SnapshotFiles::SnapshotFiles(std::filesystem::path folder, std::string identity,
                             uint64_t limit_bytes)
    : folder_(std::move(folder)), identity_(std::move(identity)), limit_bytes_(limit_bytes) {}

std::filesystem::path SnapshotFiles::PathOf(std::string_view conversation) const {
  CHECK(!conversation.empty() && conversation.find('/') == std::string_view::npos);
  return folder_ / (std::string(conversation) + std::string(kExtension));
}

Status SnapshotFiles::Save(std::string_view conversation, std::string_view snapshot) {
  std::error_code error;
  if (std::filesystem::create_directories(folder_, error)) {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all, error);
  }
  if (error) {
    return Error{.kind = KindOfErrno(error.value()),
                 .what = "the folder for keys and values cannot be made",
                 .where = folder_.string(),
                 .found = error.message()};
  }
  std::string about;
  ByteWriter writer(&about);
  writer.Text(identity_);
  writer.Text(conversation);
  const std::array sections = {ContainerSection{kTags[0], about},
                               ContainerSection{kTags[1], snapshot}};
  const std::string bytes = BuildContainer(sections);
  const std::filesystem::path path = PathOf(conversation);
  MOORING_RETURN_IF_ERROR(WriteFileAtomically(path, std::as_bytes(std::span(bytes))));
  KeepBelowLimit(path);
  return {};
}

Result<std::optional<std::string>> SnapshotFiles::Load(std::string_view conversation) {
  const std::filesystem::path path = PathOf(conversation);
  const auto read = [&]() -> Result<std::optional<std::string>> {
    MOORING_ASSIGN_OR_RETURN(const std::string bytes, ReadContainerFile(path));
    MOORING_ASSIGN_OR_RETURN(const std::vector<std::string_view> bodies,
                             OpenContainer(bytes, path.string(), kTags));
    ByteReader reader(bodies[0]);
    const bool same =
        reader.Text() == identity_ && reader.Text() == conversation && reader.complete();
    return same ? std::optional(std::string(bodies[1])) : std::nullopt;
  };
  Result<std::optional<std::string>> snapshot = read();
  if (snapshot.ok() || snapshot.error().kind == ErrorKind::kNotFound) {
    return snapshot.ok() ? std::move(snapshot) : std::optional<std::string>();
  }
  Remove(conversation);
  return snapshot;
}

void SnapshotFiles::Remove(std::string_view conversation) {
  std::error_code ignored;
  std::filesystem::remove(PathOf(conversation), ignored);
}

void SnapshotFiles::KeepBelowLimit(const std::filesystem::path& newest) const {
  struct File {
    std::filesystem::file_time_type written;
    uint64_t bytes = 0;
    std::filesystem::path path;
  };
  std::vector<File> files;
  uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    if (entry.path().extension() != kExtension) continue;
    std::error_code gone;
    files.push_back({entry.last_write_time(gone), entry.file_size(gone), entry.path()});
    if (gone) {
      files.pop_back();
    } else {
      bytes += files.back().bytes;
    }
  }
  std::ranges::sort(files, {}, &File::written);
  for (const File& file : files) {
    if (bytes <= limit_bytes_) return;
    if (file.path == newest) continue;
    std::filesystem::remove(file.path, error);
    bytes -= file.bytes;
  }
}

}  // namespace mooring
