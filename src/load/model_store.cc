#include "load/model_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "base/check.h"
#include "base/files.h"
#include "load/cache_error.h"
#include "load/catalogue.h"
#include "load/file_lock.h"
#include "load/quote.h"
#include "load/sha256.h"

namespace mooring {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMaxNamesFileBytes = uint64_t{16} << 20;

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Error DamagedNames(const std::filesystem::path& path, std::string field, std::string found) {
  return Error{.kind = ErrorKind::kFailed,
               .what = "the table of model names is damaged",
               .where = fmt::format("{}, {}", path.string(), field),
               .found = std::move(found),
               .remedy = "move the file away and pull the models again"};
}

// One entry of names.json, or nothing where it is not one.
std::optional<StoredModel> ModelFromJson(const std::string& name, const Json& entry) {
  if (!IsModelName(name) || !entry.is_object()) return std::nullopt;
  const auto bytes = entry.find("bytes");
  if (bytes == entry.end() || !bytes->is_number_unsigned()) return std::nullopt;
  StoredModel model{.name = name,
                    .sha256 = TextOf(entry, "sha256"),
                    .bytes = bytes->get<uint64_t>(),
                    .source = TextOf(entry, "source"),
                    .file = TextOf(entry, "file"),
                    .licence = TextOf(entry, "licence")};
  if (!IsSha256(model.sha256)) return std::nullopt;
  const auto files = entry.find("files");
  if (files == entry.end()) return model;
  if (!files->is_object() || files->empty()) return std::nullopt;
  for (const auto& [file_name, file] : files->items()) {
    const auto file_bytes = file.is_object() ? file.find("bytes") : file.end();
    if (!IsModelName(file_name) || !file.is_object() || file_bytes == file.end() ||
        !file_bytes->is_number_unsigned() || !IsSha256(TextOf(file, "sha256"))) {
      return std::nullopt;
    }
    model.files.push_back({file_name, TextOf(file, "sha256"), file_bytes->get<uint64_t>()});
  }
  return model;
}

// The name under which a name or alias is stored.
std::string_view StoredNameOf(std::string_view name) {
  const CatalogueEntry* entry = FindInCatalogue(name);
  return entry == nullptr ? name : entry->name;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Error BadName(const std::string& name) {
  return Error{.kind = ErrorKind::kUsage,
               .what = "not a model name",
               .where = QuoteBytes(name),
               .expected = "1 to 128 letters, digits, dots, dashes and underscores"};
}

}  // namespace

bool IsModelName(std::string_view name) {
  constexpr size_t kMaxNameBytes = 128;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kMaxNameBytes && name.front() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

std::string NearestName(std::string_view word, const std::vector<std::string>& candidates) {
  constexpr size_t kMaxWordBytes = 128;  // the distance takes the product of the lengths
  if (word.size() > kMaxWordBytes) return {};
  std::string nearest;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

Result<ModelStore> ModelStore::OfThisUser() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::filesystem::path(value == nullptr ? "" : value);
  };
  if (auto home = variable("MOORING_HOME"); !home.empty()) return ModelStore(home);
  // The XDG rules say to ignore a relative path.
  if (auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) {
    return ModelStore(cache / "mooring");
  }
  if (auto home = variable("HOME"); !home.empty()) return ModelStore(home / ".cache" / "mooring");
  return Error{.kind = ErrorKind::kConfig,
               .what = "no folder for models",
               .expected = "MOORING_HOME, XDG_CACHE_HOME or HOME in the environment",
               .remedy = "set MOORING_HOME to a folder that can be written"};
}

ModelStore::ModelStore(std::filesystem::path root) : root_(std::move(root)) {}

std::filesystem::path ModelStore::PathOf(const StoredModel& model) const {
  CHECK(IsSha256(model.sha256), "not a hash: {}", QuoteBytes(model.sha256));
  return models_folder() / fmt::format("{}{}", model.sha256, model.is_folder() ? "" : ".gguf");
}

Result<ModelStore::Names> ModelStore::ReadNames() const {
  Names names;
  auto text = ReadFile(names_path(), kMaxNamesFileBytes);
  if (!text.ok()) {
    if (text.error().kind == ErrorKind::kNotFound) return names;
    return std::move(text).error();
  }
  const Json table = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!table.is_object()) return DamagedNames(names_path(), "the whole", "not a JSON object");
  for (const auto& [name, entry] : table.items()) {
    std::optional<StoredModel> model = ModelFromJson(name, entry);
    if (!model.has_value()) {
      return DamagedNames(names_path(), fmt::format("name {}", QuoteBytes(name)), "a bad entry");
    }
    names[name] = *std::move(model);
  }
  return names;
}

Status ModelStore::WriteNames(const Names& names) const {
  Json table = Json::object();
  for (const auto& [name, model] : names) {
    Json& entry = table[name];
    entry["sha256"] = model.sha256;
    entry["bytes"] = model.bytes;
    entry["source"] = model.source;
    entry["file"] = model.file;
    if (!model.licence.empty()) entry["licence"] = model.licence;
    for (const StoredFile& file : model.files) {
      entry["files"][file.name] = {{"sha256", file.sha256}, {"bytes", file.bytes}};
    }
  }
  // Paths may hold any bytes; JSON text may not.
  const std::string text = table.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  return WriteFileAtomically(names_path(), std::as_bytes(std::span(text)));
}

Result<std::filesystem::path> ModelStore::Resolve(const std::string& name_or_path) const {
  std::error_code ignored;
  const std::filesystem::path path(name_or_path);
  const bool exists = std::filesystem::exists(path, ignored);
  if (exists && !std::filesystem::is_directory(path, ignored)) return path;
  if (!IsModelName(name_or_path)) {
    if (exists) return path;  // a folder: the reader says so
    return Error{.kind = ErrorKind::kNotFound,
                 .what = "no such model file",
                 .where = QuoteBytes(name_or_path),
                 .remedy = "see the models there are with `mooring list`"};
  }
  MOORING_ASSIGN_OR_RETURN(const Names names, ReadNames());
  const auto found = names.find(StoredNameOf(name_or_path));
  if (found == names.end()) {
    if (exists) return path;  // a folder
    return Unknown(name_or_path, names);
  }
  std::filesystem::path stored = PathOf(found->second);
  if (std::filesystem::exists(stored, ignored)) return stored;
  return Error{.kind = ErrorKind::kNotFound,
               .what = fmt::format("the {} of model '{}' is gone",
                                   found->second.is_folder() ? "folder" : "file", found->first),
               .where = stored.string(),
               .remedy = fmt::format("mooring pull {}", found->second.source)};
}

Error ModelStore::Unknown(const std::string& name, const Names& names) const {
  if (FindInCatalogue(name) != nullptr) {
    return Error{.kind = ErrorKind::kNotFound,
                 .what = fmt::format("model '{}' is not on this disk yet", name),
                 .where = root_.string(),
                 .remedy = fmt::format("mooring pull {}", name)};
  }
  std::vector<std::string> known;
  known.reserve(names.size());
  for (const auto& [stored, model] : names) known.push_back(stored);
  for (const CatalogueEntry& entry : Catalogue()) {
    if (!names.contains(entry.name)) known.emplace_back(entry.name);
  }
  Error error{.kind = ErrorKind::kNotFound,
              .what = fmt::format("no model is called {}", QuoteBytes(name)),
              .expected = fmt::format("a file, or one of {}", fmt::join(known, ", "))};
  const std::string nearest = NearestName(name, known);
  if (!nearest.empty()) error.remedy = fmt::format("did you mean '{}'?", nearest);
  return error;
}

Result<std::vector<StoredModel>> ModelStore::List() const {
  MOORING_ASSIGN_OR_RETURN(const Names names, ReadNames());
  std::vector<StoredModel> models;
  models.reserve(names.size());
  for (const auto& [name, model] : names) models.push_back(model);
  return models;
}

Result<std::optional<StoredModel>> ModelStore::Find(std::string_view name) const {
  MOORING_ASSIGN_OR_RETURN(const Names names, ReadNames());
  const auto found = names.find(StoredNameOf(name));
  if (found == names.end()) return std::optional<StoredModel>();
  return std::optional<StoredModel>(found->second);
}

Status ModelStore::MakeFolders() const {
  for (const std::filesystem::path& folder : {models_folder(), downloads_folder()}) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return CacheError("cannot create the model cache", folder, error.value());
    if (::access(folder.c_str(), W_OK) != 0) {
      return CacheError("cannot write to the model cache", folder, errno);
    }
  }
  return {};
}

Status ModelStore::Add(const StoredModel& model) {
  CHECK(IsSha256(model.sha256), "not a hash: {}", QuoteBytes(model.sha256));
  if (!IsModelName(model.name)) return BadName(model.name);
  MOORING_RETURN_IF_ERROR(MakeFolders());
  MOORING_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(models_folder() / "names.lock"));
  MOORING_ASSIGN_OR_RETURN(Names names, ReadNames());
  StoredModel& place = names[model.name];
  const StoredModel before = std::exchange(place, model);
  if (!before.sha256.empty() && before.sha256 != model.sha256 && before.source != model.source) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = fmt::format("the name '{}' belongs to another model", model.name),
                 .expected = fmt::format("source {}", QuoteBytes(before.source)),
                 .found = QuoteBytes(model.source),
                 .remedy = fmt::format("mooring rm {}", model.name)};
  }
  MOORING_RETURN_IF_ERROR(WriteNames(names));
  return before.sha256.empty() ? Status() : DeleteUnlessNamed(names, before);
}

Status ModelStore::Remove(const std::string& name) {
  if (!IsModelName(name)) return BadName(name);
  MOORING_ASSIGN_OR_RETURN(Names names, ReadNames());
  if (!names.contains(StoredNameOf(name))) return Unknown(name, names);
  MOORING_RETURN_IF_ERROR(MakeFolders());
  MOORING_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(models_folder() / "names.lock"));
  MOORING_ASSIGN_OR_RETURN(names, ReadNames());
  const auto found = names.find(StoredNameOf(name));
  if (found == names.end()) return {};  // another process was quicker
  const StoredModel gone = found->second;
  names.erase(found);
  MOORING_RETURN_IF_ERROR(WriteNames(names));
  return DeleteUnlessNamed(names, gone);
}

Status ModelStore::DeleteUnlessNamed(const Names& names, const StoredModel& gone) const {
  const std::filesystem::path path = PathOf(gone);
  for (const auto& [name, model] : names) {
    if (PathOf(model) == path) return {};
  }
  std::error_code error;
  if (!gone.is_folder()) {
    std::filesystem::remove(path, error);
    if (error) return CacheError("cannot delete the model file", path, error.value());
    return {};
  }
  // Under another name first: whoever is stopped here leaves no half of a model behind.
  std::filesystem::path aside = path;
  aside += ".old";
  std::filesystem::remove_all(aside, error);
  std::filesystem::rename(path, aside, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  if (!error) std::filesystem::remove_all(aside, error);
  if (error) return CacheError("cannot delete the model folder", path, error.value());
  return {};
}

}  // namespace mooring
