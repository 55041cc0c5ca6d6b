// The models on this disk: files and folders named by their hash, and a small table of names.
//
// Layout under root(): models/<sha256>.gguf, models/<sha256>/ for a model that is a folder (the
// hash is that of its weights), models/names.json, models/*.lock, and downloads/ while a pull runs.
// A name is letters, digits, dot, dash and underscore, never a path: IsModelName is the only gate,
// and files are opened by hash alone. names.json is replaced as a whole, under a lock, so that
// processes may add and remove at the same time.
//
// Thread rule: no state but the root; any thread may call.
#ifndef MOORING_LOAD_MODEL_STORE_H_
#define MOORING_LOAD_MODEL_STORE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mooring {

// True for 1 to 128 of [A-Za-z0-9._-], not starting with a dot.
bool IsModelName(std::string_view name);

// A file of a model that is a folder.
struct StoredFile {
  std::string name = {};
  std::string sha256 = {};
  uint64_t bytes = 0;
};

struct StoredModel {
  std::string name = {};
  std::string sha256 = {};             // of the file; of a folder that of its weights
  uint64_t bytes = 0;                  // of all files
  std::string source = {};             // as given to `pull`
  std::string file = {};               // the name of the file at its source
  std::string licence = {};            // empty when unknown
  std::vector<StoredFile> files = {};  // empty: a model of one file

  bool is_folder() const { return !files.empty(); }
};

class ModelStore {
 public:
  // $MOORING_HOME, else $XDG_CACHE_HOME/mooring, else $HOME/.cache/mooring. kConfig when none is
  // set.
  static Result<ModelStore> OfThisUser();
  // Nothing is created until something is added.
  explicit ModelStore(std::filesystem::path root);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path models_folder() const { return root_ / "models"; }
  std::filesystem::path downloads_folder() const { return root_ / "downloads"; }
  // The file, or the folder, of a model. REQUIRES: IsSha256(model.sha256).
  std::filesystem::path PathOf(const StoredModel& model) const;

  // What `name_or_path` means: an existing file, else a stored name or its alias in the catalogue,
  // else an existing folder. Otherwise kNotFound, with `mooring pull NAME` for a model of the
  // catalogue, else with the names there are and the nearest of them.
  Result<std::filesystem::path> Resolve(const std::string& name_or_path) const;

  // By name. A damaged table is kFailed.
  Result<std::vector<StoredModel>> List() const;
  // Nothing when no model has that name or alias.
  Result<std::optional<StoredModel>> Find(std::string_view name) const;

  // Makes the folders. Errors name MOORING_HOME.
  Status MakeFolders() const;
  // Names a model whose file is in place. kUsage when the name is bad, or taken by a model from
  // another source; a newer file from the same source takes the name, and the old file goes when
  // no name is left for it. REQUIRES: what is at PathOf(model).
  Status Add(const StoredModel& model);
  // Forgets the name and deletes the file when no other name is left for it. kNotFound otherwise.
  Status Remove(const std::string& name);

 private:
  using Names = std::map<std::string, StoredModel, std::less<>>;

  std::filesystem::path names_path() const { return models_folder() / "names.json"; }
  Result<Names> ReadNames() const;
  Status WriteNames(const Names& names) const;
  Status DeleteUnlessNamed(const Names& names, const StoredModel& gone) const;
  Error Unknown(const std::string& name, const Names& names) const;

  std::filesystem::path root_;
};

// Of `candidates` the one that `word` most likely means; empty when none is near.
std::string NearestName(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace mooring

#endif  // MOORING_LOAD_MODEL_STORE_H_
