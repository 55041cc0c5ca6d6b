#include "load/cache_error.h"

#include <cerrno>
#include <utility>

#include "base/files.h"

namespace mooring {

Error CacheError(std::string what, const std::filesystem::path& path, int error_number) {
  Error error{.kind = KindOfErrno(error_number),
              .what = std::move(what),
              .where = path.string(),
              .found = ErrnoText(error_number)};
  // A part of the cache that is missing is no model that is missing.
  if (error.kind == ErrorKind::kNotFound) error.kind = ErrorKind::kFailed;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      error.remedy = "free some space, or set MOORING_HOME to a folder on a larger disk";
      break;
    case EACCES:
    case EPERM:
    case EROFS:
    case ENOTDIR:
    case ENOENT:
      error.remedy = "set MOORING_HOME to a folder that can be written";
      break;
    default:
      break;
  }
  return error;
}

}  // namespace mooring
