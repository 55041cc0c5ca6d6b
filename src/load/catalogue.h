// The models that can be fetched by a short name: those that talk, one file each, and the sentence
// encoder of the memory, a folder (load/model_folder.h).
//
// Thread rule: constants and pure functions.
#ifndef MOORING_LOAD_CATALOGUE_H_
#define MOORING_LOAD_CATALOGUE_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace mooring {

// One file of a model that is a folder.
struct CatalogueFile {
  std::string_view member;  // of the archive
  std::string_view name;    // in the folder
  std::string_view sha256;
  uint64_t bytes;
};

struct CatalogueEntry {
  std::string_view name;
  std::string_view alias;   // a longer name for the same model
  std::string_view title;   // for people
  std::string_view source;  // as `pull` takes it
  std::string_view file;    // the member of the archive that `source` delivers
  std::string_view sha256;  // of the model file; of a folder that of its weights
  uint64_t bytes;           // of the model file, of all files of a folder
  uint64_t download_bytes;  // of what comes over the network
  std::string_view licence;
  std::span<const CatalogueFile> files = {};  // of a folder; empty for a model of one file
};

// What runs when nobody names a model.
inline constexpr std::string_view kDefaultModelName = "smollm2";
// What finds things by their meaning when nobody names another encoder.
inline constexpr std::string_view kDefaultEncoderName = "all-minilm-l6-v2";

std::span<const CatalogueEntry> Catalogue();

// By name or alias; null when there is none.
const CatalogueEntry* FindInCatalogue(std::string_view name);
const CatalogueEntry* FindInCatalogueBySha256(std::string_view sha256);

}  // namespace mooring

#endif  // MOORING_LOAD_CATALOGUE_H_
