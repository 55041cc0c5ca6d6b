// A file that is being written into the cache: invisible to readers until it is whole.
//
// Invariant: it is gone when its owner is, unless it was published or set aside.
//
// Thread rule: one thread; whoever writes holds the lock of the target.
#ifndef MOORING_LOAD_PART_FILE_H_
#define MOORING_LOAD_PART_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/owned_descriptor.h"
#include "base/result.h"

namespace mooring {

// What was renamed in `folder` is on the disk after this.
Status SyncFolder(const std::filesystem::path& folder);

class PartFile {
 public:
  // Starts from nothing, whatever an earlier run left there.
  static Result<PartFile> Create(const std::filesystem::path& path);

  PartFile(PartFile&& other) noexcept;
  PartFile& operator=(PartFile&&) = delete;
  ~PartFile();

  const std::filesystem::path& path() const { return path_; }

  // kResources when the disk has no room for so many more bytes.
  Status CheckRoomFor(uint64_t bytes) const;
  Status Append(std::span<const std::byte> bytes);
  // All bytes are on the disk after this.
  Status Sync();
  // Gives the file its final name, in place of any file there. REQUIRES: Sync() was good.
  Status Publish(const std::filesystem::path& path);
  // Keeps the file under another name for a person to look at.
  Status SetAside(const std::filesystem::path& path);

 private:
  PartFile(std::filesystem::path path, OwnedDescriptor file);

  std::filesystem::path path_;  // empty once the file has another name
  OwnedDescriptor file_;
};

}  // namespace mooring

#endif  // MOORING_LOAD_PART_FILE_H_
