// Fetches a wheel with the user's own pip, and with the index, proxy and certificates it is set to.
//
// Thread rule: one thread per folder.
#ifndef MOORING_LOAD_PIP_DOWNLOAD_H_
#define MOORING_LOAD_PIP_DOWNLOAD_H_

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"

namespace mooring {

// Puts the wheel of `requirement` alone, without what it depends on, into `folder`, which exists
// and is empty, and returns its path. Source packages are refused, because pip would run their
// code. `keep_running` (may be empty) is called about ten times a second with the bytes fetched so
// far; false stops with kInterrupted. kNetwork when pip is missing or fails, with the end of what
// it wrote; kResources when the disk was full.
Result<std::filesystem::path> PipDownload(const std::string& requirement,
                                          const std::filesystem::path& folder,
                                          const std::function<bool(uint64_t)>& keep_running);

// The one wheel in the folder; kNotFound when there is none or more than one.
Result<std::filesystem::path> FindWheel(const std::filesystem::path& folder);

}  // namespace mooring

#endif  // MOORING_LOAD_PIP_DOWNLOAD_H_
