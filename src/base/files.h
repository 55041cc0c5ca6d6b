// Whole files: read with a limit, written so that a crash leaves the old file or the new one.
//
// Thread rule: calls on different paths may run at the same time.
#ifndef MOORING_BASE_FILES_H_
#define MOORING_BASE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace mooring {

// Reads a whole file or, for "-", standard input. Fails with kNotFound when it is missing, with
// kUsage when it is a directory or longer than `limit_bytes`.
Result<std::string> ReadFile(const std::filesystem::path& path, uint64_t limit_bytes);

// Writes `content` to a temporary file beside `path` (mode 0600), syncs it, renames it over `path`
// and syncs the folder. On any failure `path` is as it was and the temporary file is gone; a full
// disk is kResources.
Status WriteFileAtomically(const std::filesystem::path& path, std::span<const std::byte> content);

// What the operating system said, in words, for the last failed call ("No space left on device").
std::string ErrnoText(int error_number);

// kResources for a full disk, quota or descriptor table, kNotFound for a missing path, else
// kFailed.
ErrorKind KindOfErrno(int error_number);

}  // namespace mooring

#endif  // MOORING_BASE_FILES_H_
