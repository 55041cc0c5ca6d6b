// The models that can be fetched by a short name.
//
// Thread rule: constants and pure functions.
#ifndef MOORING_LOAD_CATALOGUE_H_
#define MOORING_LOAD_CATALOGUE_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace mooring {

struct CatalogueEntry {
  std::string_view name;
  std::string_view alias;   // a longer name for the same model
  std::string_view title;   // for people
  std::string_view source;  // as `pull` takes it
  std::string_view file;    // the member of the archive that `source` delivers
  std::string_view sha256;  // of the model file
  uint64_t bytes;           // of the model file
  uint64_t download_bytes;  // of what comes over the network
  std::string_view licence;
};

// What runs when nobody names a model.
inline constexpr std::string_view kDefaultModelName = "smollm2";

std::span<const CatalogueEntry> Catalogue();

// By name or alias; null when there is none.
const CatalogueEntry* FindInCatalogue(std::string_view name);
const CatalogueEntry* FindInCatalogueBySha256(std::string_view sha256);

}  // namespace mooring

#endif  // MOORING_LOAD_CATALOGUE_H_
