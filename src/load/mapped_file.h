// A file mapped read-only into memory.
//
// Invariants: bytes() is as long as the file was when it was opened and stays at one address for
// the life of the mapping, also when the object moves. The descriptor stays open, so that the file
// can be deleted or renamed meanwhile. A file that another process shortens while it is mapped ends
// this process (SIGBUS): files in the model cache are only ever replaced by renaming.
//
// Thread rule: immutable after it is made; any thread may read.
#ifndef MOORING_LOAD_MAPPED_FILE_H_
#define MOORING_LOAD_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace mooring {

class MappedFile {
 public:
  // Errors: kNotFound (missing), kModelInvalid (empty, or not a regular file), kResources, kFailed.
  static Result<MappedFile> Open(const std::filesystem::path& path);

  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::filesystem::path& path() const { return path_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  int descriptor() const { return descriptor_; }

  // Hints for the page cache about the pages that hold any of `part`, a piece of bytes(): read them
  // soon, or let go of our mapping of them (they are read again from the file when touched).
  void AdviseWillNeed(std::span<const std::byte> part) const;
  void AdviseDontNeed(std::span<const std::byte> part) const;

 private:
  MappedFile(std::filesystem::path path, int descriptor, std::span<const std::byte> bytes);
  void Release();
  void Advise(std::span<const std::byte> part, int advice) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::span<const std::byte> bytes_;
};

}  // namespace mooring

#endif  // MOORING_LOAD_MAPPED_FILE_H_
