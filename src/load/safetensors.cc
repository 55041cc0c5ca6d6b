#include "load/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/checked.h"
#include "load/byte_cursor.h"
#include "load/quote.h"

namespace mooring {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxDirectoryBytes = uint64_t{8} << 20;
constexpr size_t kMaxTensors = 65536;
constexpr size_t kMaxNameBytes = 256;
// The directory, an entry, a list in the entry.
constexpr int kMaxDepth = 3;
constexpr std::string_view kMetadataKey = "__metadata__";

struct ElementType {
  std::string_view name;
  uint64_t bytes;
  std::optional<DType> dtype;  // nothing: checked and left out
};

constexpr std::array kElementTypes = {
    ElementType{"F32", 4, DType::kF32},   ElementType{"F16", 2, DType::kF16},
    ElementType{"BF16", 2, DType::kBF16}, ElementType{"I64", 8, std::nullopt},
    ElementType{"I32", 4, std::nullopt},  ElementType{"I16", 2, std::nullopt},
    ElementType{"I8", 1, std::nullopt},   ElementType{"U64", 8, std::nullopt},
    ElementType{"U32", 4, std::nullopt},  ElementType{"U16", 2, std::nullopt},
    ElementType{"U8", 1, std::nullopt},   ElementType{"BOOL", 1, std::nullopt},
};

const ElementType* FindElementType(std::string_view name) {
  const auto* const found = std::ranges::find(kElementTypes, name, &ElementType::name);
  return found == kElementTypes.end() ? nullptr : found;
}

// What one entry of the directory says.
struct Entry {
  NamedTensor tensor;
  bool kept = false;
  uint64_t begin = 0;  // of the data, from the end of the directory
  uint64_t end = 0;
};

class SafetensorsReader {
 public:
  SafetensorsReader(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), cursor_(bytes, path) {}

  Result<std::vector<NamedTensor>> Read() {
    MOORING_ASSIGN_OR_RETURN(const Json directory, ReadDirectory());
    if (directory.size() > kMaxTensors + 1) {
      return Invalid("the directory", fmt::format("at most {} tensors", kMaxTensors),
                     fmt::format("{}", directory.size()));
    }
    for (const auto& [name, value] : directory.items()) {
      if (name == kMetadataKey) continue;  // remarks of the writer
      MOORING_ASSIGN_OR_RETURN(Entry entry, ReadEntry(name, value));
      entries_.push_back(std::move(entry));
    }
    MOORING_RETURN_IF_ERROR(CheckCover());
    std::vector<NamedTensor> tensors;
    for (Entry& entry : entries_) {
      if (entry.kept) tensors.push_back(std::move(entry.tensor));
    }
    return tensors;
  }

 private:
  Result<Json> ReadDirectory();
  Result<Entry> ReadEntry(const std::string& name, const Json& value) const;
  Status ReadShape(const std::string& field, const Json& value, const ElementType& type,
                   Entry* entry) const;
  Status ReadOffsets(const std::string& field, const Json& value, Entry* entry) const;
  // Sorts the entries by their place; every byte of the data belongs to exactly one.
  Status CheckCover();

  Error Invalid(const std::string& field, std::string expected, std::string found) const {
    return cursor_.Invalid(field, kLengthBytes, std::move(expected), std::move(found));
  }

  std::span<const std::byte> bytes_;
  ByteCursor cursor_;
  std::span<const std::byte> data_;
  std::vector<Entry> entries_;
};

// A number of the directory that is a size; nothing for all else.
std::optional<uint64_t> AsSize(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  const auto size = value.get<uint64_t>();
  if (size > std::numeric_limits<int64_t>::max()) return std::nullopt;
  return size;
}

Result<Json> SafetensorsReader::ReadDirectory() {
  MOORING_ASSIGN_OR_RETURN(const uint64_t length,
                           cursor_.Read<uint64_t>("length of the directory"));
  if (length < 2 || length > kMaxDirectoryBytes || length > cursor_.remaining()) {
    return cursor_.Invalid(
        "length of the directory", 0,
        fmt::format("2 to {} bytes", std::min(kMaxDirectoryBytes, cursor_.remaining())),
        fmt::format("{}", length));
  }
  const auto* text = reinterpret_cast<const char*>(bytes_.data() + kLengthBytes);
  data_ = bytes_.subspan(kLengthBytes + length);
  // The parser keeps the last of equal keys and nests as deep as it is told to: watch both.
  std::set<std::string> names;
  std::optional<std::string> twice;
  bool too_deep = false;
  const auto watch = [&](int depth, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(parsed.get<std::string>()).second && !twice) {
      twice = parsed.get<std::string>();
    }
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kMaxDepth) too_deep = true;
    return !too_deep;
  };
  Json directory = Json::parse(text, text + length, watch, /*allow_exceptions=*/false);
  if (too_deep) return Invalid("the directory", "JSON of three levels", "more");
  if (twice) {
    return Invalid(fmt::format("tensor {}", QuoteBytes(*twice)), "each tensor name once",
                   "the name a second time");
  }
  if (!directory.is_object()) return Invalid("the directory", "a JSON object", "something else");
  return directory;
}

Result<Entry> SafetensorsReader::ReadEntry(const std::string& name, const Json& value) const {
  const std::string field = fmt::format("tensor {}", QuoteBytes(name));
  if (name.empty() || name.size() > kMaxNameBytes) {
    return Invalid(field, fmt::format("a name of 1 to {} bytes", kMaxNameBytes),
                   fmt::format("{}", name.size()));
  }
  const auto part = [&value](const char* key) {
    const auto found = value.is_object() ? value.find(key) : value.end();
    return value.is_object() && found != value.end() ? *found : Json();
  };
  const Json type_name = part("dtype");
  const ElementType* type =
      type_name.is_string() ? FindElementType(type_name.get<std::string>()) : nullptr;
  if (type == nullptr) {
    return Invalid(fmt::format("type of {}", field), "F32, F16, BF16 or a whole number",
                   type_name.is_string() ? QuoteBytes(type_name.get<std::string>()) : "none");
  }
  Entry entry;
  entry.tensor.name = name;
  MOORING_RETURN_IF_ERROR(ReadOffsets(field, part("data_offsets"), &entry));
  MOORING_RETURN_IF_ERROR(ReadShape(field, part("shape"), *type, &entry));
  entry.tensor.view.data = data_.data() + entry.begin;
  entry.tensor.file_offset = static_cast<uint64_t>(data_.data() - bytes_.data()) + entry.begin;
  if (entry.kept && entry.tensor.file_offset % type->bytes != 0) {
    return Invalid(fmt::format("place of {}", field), fmt::format("a multiple of {}", type->bytes),
                   fmt::format("{}", entry.tensor.file_offset));
  }
  return entry;
}

Status SafetensorsReader::ReadOffsets(const std::string& field, const Json& value,
                                      Entry* entry) const {
  const bool pair = value.is_array() && value.size() == 2;
  const std::optional<uint64_t> begin = pair ? AsSize(value[0]) : std::nullopt;
  const std::optional<uint64_t> end = pair ? AsSize(value[1]) : std::nullopt;
  if (!begin || !end || *begin > *end || *end > data_.size()) {
    return Invalid(fmt::format("data_offsets of {}", field),
                   fmt::format("two offsets in order, at most {}", data_.size()),
                   begin && end ? fmt::format("{} and {}", *begin, *end) : "something else");
  }
  entry->begin = *begin;
  entry->end = *end;
  return {};
}

Status SafetensorsReader::ReadShape(const std::string& field, const Json& value,
                                    const ElementType& type, Entry* entry) const {
  const std::string where = fmt::format("shape of {}", field);
  if (!value.is_array() || value.size() > kMaxRank) {
    return Invalid(where, fmt::format("a list of at most {} sizes", kMaxRank),
                   value.is_array() ? fmt::format("{}", value.size()) : "something else");
  }
  TensorView& view = entry->tensor.view;
  view.rank = std::max(1, static_cast<int>(value.size()));
  view.shape[0] = 1;  // of a single number, which has no sizes
  CheckedSize bytes = type.bytes;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::optional<uint64_t> size = AsSize(value[i]);
    if (!size || *size == 0) {
      return Invalid(where, "sizes of at least 1", size ? "0" : "something else");
    }
    view.shape[i] = static_cast<int64_t>(*size);
    bytes = bytes * *size;
  }
  if (bytes.value() != entry->end - entry->begin) {
    return Invalid(fmt::format("size of {}", field),
                   bytes.valid() ? fmt::format("{} bytes", *bytes.value()) : "less than 2^64 bytes",
                   fmt::format("{}", entry->end - entry->begin));
  }
  entry->kept = type.dtype.has_value();
  view.dtype = type.dtype.value_or(DType::kF32);
  return {};
}

Status SafetensorsReader::CheckCover() {
  std::ranges::sort(entries_, {},
                    [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  uint64_t covered = 0;
  for (const Entry& entry : entries_) {
    if (entry.begin != covered) {
      return Invalid(fmt::format("data_offsets of tensor {}", QuoteBytes(entry.tensor.name)),
                     fmt::format("a begin of {}, where the one before ends", covered),
                     fmt::format("{}", entry.begin));
    }
    covered = entry.end;
  }
  if (covered == data_.size()) return {};
  return Invalid("the data", fmt::format("{} bytes, as the directory says", covered),
                 fmt::format("{}", data_.size()));
}

}  // namespace

bool LooksLikeSafetensors(std::span<const std::byte> bytes) {
  return bytes.size() > kLengthBytes && bytes[kLengthBytes] == std::byte{'{'};
}

Result<std::vector<NamedTensor>> ParseSafetensors(std::span<const std::byte> bytes,
                                                  const std::string& path) {
  return SafetensorsReader(bytes, path).Read();
}

}  // namespace mooring
