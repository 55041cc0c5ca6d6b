#include "load/model_folder.h"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/files.h"
#include "load/mapped_file.h"
#include "load/quote.h"
#include "load/safetensors.h"

namespace mooring {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxConfigBytes = uint64_t{1} << 20;
constexpr uint64_t kMaxVocabBytes = uint64_t{16} << 20;
constexpr size_t kMaxWords = size_t{1} << 20;
constexpr size_t kMaxWordBytes = 1024;
constexpr int kMaxConfigDepth = 8;

Error BadPart(const std::filesystem::path& path, const std::string& field, std::string expected,
              std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the model folder is invalid or unsupported",
               .where = fmt::format("{}, {}", path.string(), field),
               .expected = std::move(expected),
               .found = std::move(found),
               .remedy = "fetch the model again"};
}

// A part of the folder that is text, whole.
Result<std::string> ReadPart(const std::filesystem::path& path, uint64_t limit_bytes) {
  auto text = ReadFile(path, limit_bytes);
  if (text.ok()) return text;
  Error error = std::move(text).error();
  if (error.kind == ErrorKind::kUsage) error.kind = ErrorKind::kModelInvalid;  // too long
  return error;
}

// The plain values of config.json; lists and objects say nothing that is read here.
std::optional<MetaValue> PlainValue(const Json& value) {
  if (value.is_boolean()) return MetaValue(value.get<bool>());
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return std::nullopt;
  }
  if (value.is_number_integer()) return MetaValue(value.get<int64_t>());
  if (value.is_number_float()) return MetaValue(value.get<double>());
  if (value.is_string()) return MetaValue(value.get<std::string>());
  return std::nullopt;
}

Status ReadConfig(const std::filesystem::path& path, std::map<std::string, MetaValue>* values) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadPart(path, kMaxConfigBytes));
  bool too_deep = false;
  const auto watch = [&too_deep](int depth, Json::parse_event_t /*event*/, const Json& /*parsed*/) {
    too_deep |= depth > kMaxConfigDepth;
    return !too_deep;
  };
  const Json config = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (too_deep || !config.is_object()) {
    return BadPart(path, "the whole", "a JSON object",
                   too_deep ? "one that is nested too deep" : "something else");
  }
  for (const auto& [key, value] : config.items()) {
    if (std::optional<MetaValue> plain = PlainValue(value)) (*values)[key] = *std::move(plain);
  }
  const auto type = values->find("model_type");
  if (type == values->end() || !std::holds_alternative<std::string>(type->second)) {
    return BadPart(path, "model_type", "the name of a model family", "none");
  }
  (*values)["general.architecture"] = type->second;
  return {};
}

Result<std::vector<std::string>> ReadWords(const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadPart(path, kMaxVocabBytes));
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string_view word(text.data() + at, end - at);
    if (word.ends_with('\r')) word.remove_suffix(1);
    if (word.size() > kMaxWordBytes || words.size() == kMaxWords) {
      return BadPart(path, fmt::format("line {}", words.size() + 1),
                     fmt::format("at most {} lines of {} bytes", kMaxWords, kMaxWordBytes),
                     fmt::format("{} bytes", word.size()));
    }
    words.emplace_back(word);
    at = end + 1;
  }
  if (words.empty()) return BadPart(path, "the whole", "one word a line", "an empty file");
  return words;
}

}  // namespace

Result<std::unique_ptr<ModelFile>> ReadModelFolder(const std::filesystem::path& folder) {
  std::map<std::string, MetaValue> values;
  MOORING_RETURN_IF_ERROR(ReadConfig(folder / kFolderConfig, &values));
  MOORING_ASSIGN_OR_RETURN(values[std::string(kFolderVocab)], ReadWords(folder / kFolderVocab));
  MOORING_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(folder / kFolderWeights));
  MOORING_ASSIGN_OR_RETURN(std::vector<NamedTensor> tensors,
                           ParseSafetensors(file.bytes(), file.path().string()));
  return std::make_unique<ModelFile>(std::move(file), "safetensors", std::move(values),
                                     std::move(tensors));
}

}  // namespace mooring
