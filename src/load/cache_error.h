// What went wrong while writing into the model cache, with what to do about it.
//
// Thread rule: pure function.
#ifndef MOORING_LOAD_CACHE_ERROR_H_
#define MOORING_LOAD_CACHE_ERROR_H_

#include <filesystem>
#include <string>

#include "base/result.h"

namespace mooring {

// kResources for a full disk, else kFailed; the remedy names MOORING_HOME where another folder
// helps.
Error CacheError(std::string what, const std::filesystem::path& path, int error_number);

}  // namespace mooring

#endif  // MOORING_LOAD_CACHE_ERROR_H_
