// Checks a model file without loading it: the whole directory under the reader's limits, and the
// hash of every byte; of a model that is a folder, of every file.
//
// Thread rule: pure function of the file.
#ifndef MOORING_LOAD_VERIFY_H_
#define MOORING_LOAD_VERIFY_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/result.h"
#include "load/model_store.h"
#include "load/sha256.h"
#include "tensor/dtype.h"

namespace mooring {

struct VerifyReport {
  std::filesystem::path path = {};
  std::string container = {};     // "GGUF v3"
  std::string architecture = {};  // empty when the file names none
  uint64_t file_bytes = 0;
  std::string sha256 = {};  // of the file; of a folder that of its weights
  uint64_t key_count = 0;
  uint64_t tensor_count = 0;
  uint64_t tensor_bytes = 0;
  std::map<DType, uint64_t> tensors_per_type = {};
};

// `files`: those that a folder must have. Errors: those of OpenModelFile; kFaultFound when a hash
// is not the wanted one; kInterrupted when `step` says so.
Result<VerifyReport> VerifyModelFile(const std::filesystem::path& path,
                                     const std::optional<std::string>& sha256 = std::nullopt,
                                     const StepFunction& step = {},
                                     std::span<const StoredFile> files = {});

}  // namespace mooring

#endif  // MOORING_LOAD_VERIFY_H_
