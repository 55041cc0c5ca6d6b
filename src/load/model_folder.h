// A model that comes as a folder: weights in model.safetensors, sizes in config.json, and the words
// of its tokenizer in vocab.txt, one a line.
//
// Read into one ModelFile: the tensors of the weights; each plain value of config.json (booleans,
// numbers, texts) under its own name, `model_type` also as `general.architecture`; and the lines of
// vocab.txt as texts under `vocab.txt`.
//
// Thread rule: pure functions of the files.
#ifndef MOORING_LOAD_MODEL_FOLDER_H_
#define MOORING_LOAD_MODEL_FOLDER_H_

#include <filesystem>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "load/model_file.h"

namespace mooring {

inline constexpr std::string_view kFolderWeights = "model.safetensors";
inline constexpr std::string_view kFolderConfig = "config.json";
inline constexpr std::string_view kFolderVocab = "vocab.txt";

// kNotFound names the file that is missing; kModelInvalid file, field, expected and found.
Result<std::unique_ptr<ModelFile>> ReadModelFolder(const std::filesystem::path& folder);

}  // namespace mooring

#endif  // MOORING_LOAD_MODEL_FOLDER_H_
