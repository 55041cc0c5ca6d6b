// Opens a model of any container this build can read: a file, told apart by its first bytes, or a
// folder (load/model_folder.h).
//
// Thread rule: pure function of the file.
#ifndef MOORING_LOAD_OPEN_H_
#define MOORING_LOAD_OPEN_H_

#include <filesystem>
#include <memory>

#include "base/result.h"
#include "load/model_file.h"

namespace mooring {

// Maps and checks the whole directory of the file; weights themselves are not read. Errors:
// kNotFound (missing), kModelInvalid (foreign, truncated, corrupt, unsupported; names file, field,
// byte offset, expected and found).
Result<std::unique_ptr<ModelFile>> OpenModelFile(const std::filesystem::path& path);

}  // namespace mooring

#endif  // MOORING_LOAD_OPEN_H_
