#include "load/gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/checked.h"
#include "load/byte_cursor.h"
#include "load/gguf_types.h"
#include "load/quote.h"

namespace mooring {
namespace {

constexpr uint64_t kMaxKeys = 65536;
constexpr uint64_t kMaxTensors = 65536;
constexpr uint64_t kMaxKeyBytes = 65535;
constexpr uint64_t kMaxTensorNameBytes = 64;
constexpr uint64_t kMaxStringBytes = uint64_t{1} << 30;  // as in the reference reader
constexpr uint64_t kMaxAlignment = 65536;
constexpr uint64_t kDefaultAlignment = 32;
constexpr uint64_t kMaxInt64 = std::numeric_limits<int64_t>::max();
// Bytes in the file of the smallest possible entry, to refuse absurd counts before any loop.
constexpr uint64_t kMinKeyEntryBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMinTensorEntryBytes = 8 + 1 + 4 + 8 + 4 + 8;
// What a map node costs beside the strings in it, roughly.
constexpr uint64_t kNodeBytes = 128;
constexpr uint64_t kMemoryFloorBytes = uint64_t{16} << 20;
constexpr std::string_view kAlignmentKey = "general.alignment";
constexpr std::string_view kSplitCountKey = "split.count";

enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// A directory entry before the place of the data section is known.
struct Entry {
  NamedTensor tensor;
  uint64_t entry_offset = 0;     // of the entry in the file
  uint64_t relative_offset = 0;  // of the data, from the start of the data section
  uint64_t bytes = 0;
};

class GgufReader {
 public:
  GgufReader(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes),
        cursor_(bytes, path),
        memory_limit_(CheckedSize(bytes.size()) * 2 + kMemoryFloorBytes) {}

  Result<GgufDirectory> Read() {
    MOORING_RETURN_IF_ERROR(ReadHeader());
    for (uint64_t i = 0; i < key_count_; ++i) MOORING_RETURN_IF_ERROR(ReadKeyValue());
    MOORING_RETURN_IF_ERROR(ReadAlignment());
    MOORING_RETURN_IF_ERROR(RefuseSplit());
    for (uint64_t i = 0; i < tensor_count_; ++i) MOORING_RETURN_IF_ERROR(ReadTensorEntry());
    MOORING_RETURN_IF_ERROR(PlaceTensors());
    MOORING_RETURN_IF_ERROR(RefuseOverlap());
    directory_.tensors.reserve(entries_.size());
    for (Entry& entry : entries_) directory_.tensors.push_back(std::move(entry.tensor));
    return std::move(directory_);
  }

 private:
  Status ReadHeader();
  Status ReadKeyValue();
  Status ReadAlignment();
  Status RefuseSplit() const;
  Status ReadTensorEntry();
  Status ReadShape(const std::string& field, TensorView& view);
  Status MeasureTensor(const std::string& field, uint64_t offset, Entry& entry) const;
  Status PlaceTensors();
  Status RefuseOverlap() const;

  Result<MetaValue> ReadValue(const std::string& field);
  Result<MetaValue> ReadScalar(ValueType type, const std::string& field);
  Result<MetaValue> ReadArray(const std::string& field);
  template <typename T>
  Result<int64_t> ReadInteger(const std::string& field);
  template <typename T>
  Result<double> ReadFloat(const std::string& field);
  Result<bool> ReadBool(const std::string& field);
  Result<std::string> ReadText(const std::string& field);
  template <typename Item, typename ReadItem>
  Result<MetaValue> ReadItems(uint64_t count, uint64_t item_file_bytes, uint64_t item_memory_bytes,
                              const std::string& field, ReadItem read_item);

  // Books memory about to be taken for what `field` holds.
  Status TakeMemory(CheckedSize bytes, std::string_view field, uint64_t offset);
  Error UnknownType(const std::string& field, uint64_t offset, uint32_t type) const {
    return cursor_.Invalid(field, offset, "a value type from 0 to 12", fmt::format("{}", type));
  }

  std::span<const std::byte> bytes_;
  ByteCursor cursor_;
  CheckedSize memory_limit_;
  CheckedSize memory_taken_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t key_count_ = 0;
  uint64_t alignment_ = kDefaultAlignment;
  uint64_t alignment_offset_ = 0;
  uint64_t split_count_offset_ = 0;
  std::vector<Entry> entries_;
  std::unordered_set<std::string_view> tensor_names_;  // views into the file
  GgufDirectory directory_;
};

Status GgufReader::TakeMemory(CheckedSize bytes, std::string_view field, uint64_t offset) {
  memory_taken_ = memory_taken_ + bytes;
  if (memory_taken_.AtMost(memory_limit_.value().value_or(0))) return {};
  return cursor_.Invalid(field, offset, "a directory that fits in twice the size of the file",
                         "one that takes more memory");
}

Status GgufReader::ReadHeader() {
  MOORING_ASSIGN_OR_RETURN(const uint32_t magic, cursor_.Read<uint32_t>("magic"));
  if (magic != std::bit_cast<uint32_t>(std::array{'G', 'G', 'U', 'F'})) {
    return cursor_.Invalid("magic", 0, "'GGUF'", fmt::format("0x{:08x}", magic));
  }
  MOORING_ASSIGN_OR_RETURN(const uint32_t version, cursor_.Read<uint32_t>("version"));
  if (version != 2 && version != 3) {
    const uint32_t swapped = __builtin_bswap32(version);
    std::string found = fmt::format("version {}", version);
    if (version == 1) found = "version 1, which had 32-bit counts; convert the model again";
    if (swapped >= 1 && swapped <= 3) found = fmt::format("a big-endian file (v{})", swapped);
    return cursor_.Invalid("version", 4, "GGUF version 2 or 3, little endian", std::move(found));
  }
  directory_.version = version;
  MOORING_ASSIGN_OR_RETURN(tensor_count_, cursor_.Read<uint64_t>("tensor count"));
  MOORING_ASSIGN_OR_RETURN(key_count_, cursor_.Read<uint64_t>("key count"));
  if (!(CheckedSize(tensor_count_) * kMinTensorEntryBytes).AtMost(cursor_.remaining()) ||
      tensor_count_ > kMaxTensors) {
    return cursor_.Invalid("tensor count", 8,
                           fmt::format("at most {} and no more than fit in the file", kMaxTensors),
                           fmt::format("{}", tensor_count_));
  }
  if (!(CheckedSize(key_count_) * kMinKeyEntryBytes).AtMost(cursor_.remaining()) ||
      key_count_ > kMaxKeys) {
    return cursor_.Invalid("key count", 16,
                           fmt::format("at most {} and no more than fit in the file", kMaxKeys),
                           fmt::format("{}", key_count_));
  }
  return {};
}

Status GgufReader::ReadKeyValue() {
  const uint64_t key_offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const std::string_view key, cursor_.ReadString("key", 1, kMaxKeyBytes));
  const std::string field = fmt::format("key {}", QuoteBytes(key));
  MOORING_RETURN_IF_ERROR(TakeMemory(CheckedSize(key.size()) + kNodeBytes, field, key_offset));
  auto [place, is_new] = directory_.values.try_emplace(std::string(key));
  if (!is_new) {
    return cursor_.Invalid(field, key_offset, "each key once", "the key a second time");
  }
  // Remembered so that what is wrong with the value itself can be said with its place.
  if (key == kAlignmentKey) alignment_offset_ = cursor_.offset();
  if (key == kSplitCountKey) split_count_offset_ = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(place->second, ReadValue(field));
  return {};
}

Result<MetaValue> GgufReader::ReadValue(const std::string& field) {
  const uint64_t offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>(field));
  if (type > static_cast<uint32_t>(ValueType::kF64)) return UnknownType(field, offset, type);
  if (static_cast<ValueType>(type) == ValueType::kArray) return ReadArray(field);
  return ReadScalar(static_cast<ValueType>(type), field);
}

template <typename T>
Result<int64_t> GgufReader::ReadInteger(const std::string& field) {
  const uint64_t offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const T value, cursor_.Read<T>(field));
  if (std::cmp_greater(value, kMaxInt64)) {
    return cursor_.Invalid(field, offset, fmt::format("at most {}", kMaxInt64),
                           fmt::format("{}", value));
  }
  return static_cast<int64_t>(value);
}

template <typename T>
Result<double> GgufReader::ReadFloat(const std::string& field) {
  MOORING_ASSIGN_OR_RETURN(const T value, cursor_.Read<T>(field));
  return static_cast<double>(value);
}

Result<bool> GgufReader::ReadBool(const std::string& field) {
  const uint64_t offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const uint8_t value, cursor_.Read<uint8_t>(field));
  if (value > 1) return cursor_.Invalid(field, offset, "0 or 1", fmt::format("{}", value));
  return value == 1;
}

Result<std::string> GgufReader::ReadText(const std::string& field) {
  const uint64_t offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const std::string_view text,
                           cursor_.ReadString(field, 0, kMaxStringBytes));
  // Short strings live inside the object, which its owner has booked.
  constexpr size_t kInlineBytes = 15;
  if (text.size() > kInlineBytes) MOORING_RETURN_IF_ERROR(TakeMemory(text.size(), field, offset));
  return std::string(text);
}

// A Result of one kind as a Result of any kind.
template <typename T>
Result<MetaValue> AsValue(Result<T> result) {
  if (!result.ok()) return std::move(result).error();
  return MetaValue(std::move(result).value());
}

Result<MetaValue> GgufReader::ReadScalar(ValueType type, const std::string& field) {
  switch (type) {
    case ValueType::kU8:
      return AsValue(ReadInteger<uint8_t>(field));
    case ValueType::kI8:
      return AsValue(ReadInteger<int8_t>(field));
    case ValueType::kU16:
      return AsValue(ReadInteger<uint16_t>(field));
    case ValueType::kI16:
      return AsValue(ReadInteger<int16_t>(field));
    case ValueType::kU32:
      return AsValue(ReadInteger<uint32_t>(field));
    case ValueType::kI32:
      return AsValue(ReadInteger<int32_t>(field));
    case ValueType::kU64:
      return AsValue(ReadInteger<uint64_t>(field));
    case ValueType::kI64:
      return AsValue(ReadInteger<int64_t>(field));
    case ValueType::kF32:
      return AsValue(ReadFloat<float>(field));
    case ValueType::kF64:
      return AsValue(ReadFloat<double>(field));
    case ValueType::kBool:
      return AsValue(ReadBool(field));
    case ValueType::kString:
      return AsValue(ReadText(field));
    case ValueType::kArray:
      break;
  }
  CHECK(false, "not a scalar: {}", static_cast<uint32_t>(type));
}

template <typename Item, typename ReadItem>
Result<MetaValue> GgufReader::ReadItems(uint64_t count, uint64_t item_file_bytes,
                                        uint64_t item_memory_bytes, const std::string& field,
                                        ReadItem read_item) {
  const uint64_t offset = cursor_.offset();
  const CheckedSize wanted = CheckedSize(count) * item_file_bytes;
  if (!wanted.AtMost(cursor_.remaining())) {
    return cursor_.Invalid(field, offset, "an array that ends inside the file",
                           fmt::format("{} items with {} bytes left", count, cursor_.remaining()));
  }
  MOORING_RETURN_IF_ERROR(TakeMemory(CheckedSize(count) * item_memory_bytes, field, offset));
  std::vector<Item> items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    MOORING_ASSIGN_OR_RETURN(Item item, read_item());
    items.push_back(std::move(item));
  }
  return MetaValue(std::move(items));
}

Result<MetaValue> GgufReader::ReadArray(const std::string& field) {
  const uint64_t type_offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>(field));
  MOORING_ASSIGN_OR_RETURN(const uint64_t count, cursor_.Read<uint64_t>(field));
  const auto integers = [&]<typename T>(T /*width*/) {
    return ReadItems<int64_t>(count, sizeof(T), sizeof(int64_t), field,
                              [&] { return ReadInteger<T>(field); });
  };
  const auto floats = [&]<typename T>(T /*width*/) {
    return ReadItems<double>(count, sizeof(T), sizeof(double), field,
                             [&] { return ReadFloat<T>(field); });
  };
  if (type > static_cast<uint32_t>(ValueType::kF64)) return UnknownType(field, type_offset, type);
  switch (static_cast<ValueType>(type)) {
    case ValueType::kU8:
      return integers(uint8_t{});
    case ValueType::kI8:
      return integers(int8_t{});
    case ValueType::kU16:
      return integers(uint16_t{});
    case ValueType::kI16:
      return integers(int16_t{});
    case ValueType::kU32:
      return integers(uint32_t{});
    case ValueType::kI32:
      return integers(int32_t{});
    case ValueType::kU64:
      return integers(uint64_t{});
    case ValueType::kI64:
      return integers(int64_t{});
    case ValueType::kF32:
      return floats(float{});
    case ValueType::kF64:
      return floats(double{});
    case ValueType::kBool:
      return ReadItems<bool>(count, 1, 1, field, [&] { return ReadBool(field); });
    case ValueType::kString:
      return ReadItems<std::string>(count, sizeof(uint64_t), sizeof(std::string), field,
                                    [&] { return ReadText(field); });
    case ValueType::kArray:
      break;
  }
  return cursor_.Invalid(field, type_offset, "an array of plain values", "an array of arrays");
}

Status GgufReader::ReadAlignment() {
  const auto found = directory_.values.find(std::string(kAlignmentKey));
  if (found == directory_.values.end()) return {};
  const auto* value = std::get_if<int64_t>(&found->second);
  const bool good = value != nullptr && *value >= 1 && std::cmp_less_equal(*value, kMaxAlignment) &&
                    std::has_single_bit(static_cast<uint64_t>(*value));
  if (!good) {
    return cursor_.Invalid(fmt::format("key '{}'", kAlignmentKey), alignment_offset_,
                           fmt::format("a power of two from 1 to {}", kMaxAlignment),
                           value == nullptr ? "not an integer" : fmt::format("{}", *value));
  }
  alignment_ = static_cast<uint64_t>(*value);
  return {};
}

Status GgufReader::RefuseSplit() const {
  const auto found = directory_.values.find(std::string(kSplitCountKey));
  if (found == directory_.values.end()) return {};
  const auto* value = std::get_if<int64_t>(&found->second);
  if (value != nullptr && (*value == 0 || *value == 1)) return {};
  return cursor_.Invalid(
      fmt::format("key '{}'", kSplitCountKey), split_count_offset_, "a model in one file",
      value == nullptr ? "not an integer" : fmt::format("a model split into {} files", *value));
}

Status GgufReader::ReadTensorEntry() {
  Entry entry;
  entry.entry_offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const std::string_view name,
                           cursor_.ReadString("tensor name", 1, kMaxTensorNameBytes));
  const std::string field = fmt::format("tensor {}", QuoteBytes(name));
  MOORING_RETURN_IF_ERROR(
      TakeMemory(sizeof(Entry) + sizeof(NamedTensor) + 2 * kNodeBytes, field, entry.entry_offset));
  if (!tensor_names_.insert(name).second) {
    return cursor_.Invalid(field, entry.entry_offset, "each tensor name once",
                           "the name a second time");
  }
  entry.tensor.name = name;
  const uint64_t shape_offset = cursor_.offset();
  MOORING_RETURN_IF_ERROR(ReadShape(field, entry.tensor.view));
  const uint64_t type_offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>(field));
  const std::optional<DType> dtype = DTypeFromGgufId(type);
  if (!dtype.has_value()) {
    return cursor_.Invalid(fmt::format("type of {}", field), type_offset,
                           fmt::format("one of {}", SupportedGgufTypesText()), GgufTypeText(type));
  }
  entry.tensor.view.dtype = *dtype;
  MOORING_RETURN_IF_ERROR(MeasureTensor(field, shape_offset, entry));
  MOORING_ASSIGN_OR_RETURN(entry.relative_offset, cursor_.Read<uint64_t>(field));
  entries_.push_back(std::move(entry));
  return {};
}

Status GgufReader::ReadShape(const std::string& field, TensorView& view) {
  const uint64_t rank_offset = cursor_.offset();
  MOORING_ASSIGN_OR_RETURN(const uint32_t rank, cursor_.Read<uint32_t>(field));
  if (rank < 1 || rank > kMaxRank) {
    return cursor_.Invalid(fmt::format("rank of {}", field), rank_offset,
                           fmt::format("1 to {}", kMaxRank), fmt::format("{}", rank));
  }
  view.rank = static_cast<int>(rank);
  for (uint32_t i = 0; i < rank; ++i) {
    const uint64_t offset = cursor_.offset();
    MOORING_ASSIGN_OR_RETURN(const uint64_t size, cursor_.Read<uint64_t>(field));
    if (size < 1 || size > kMaxInt64) {
      return cursor_.Invalid(fmt::format("dimension {} of {}", i, field), offset,
                             fmt::format("1 to {}", kMaxInt64), fmt::format("{}", size));
    }
    // The file lists the fastest dimension first, a view the slowest.
    view.shape[rank - 1 - i] = static_cast<int64_t>(size);
  }
  return {};
}

Status GgufReader::MeasureTensor(const std::string& field, uint64_t offset, Entry& entry) const {
  const TensorView& view = entry.tensor.view;
  const DTypeInfo& info = InfoOf(view.dtype);
  const auto columns = static_cast<uint64_t>(view.columns());
  const auto block_items = static_cast<uint64_t>(info.block_items);
  if (columns % block_items != 0) {
    return cursor_.Invalid(fmt::format("row length of {}", field), offset,
                           fmt::format("a multiple of {} for {}", block_items, info.name),
                           fmt::format("{}", columns));
  }
  CheckedSize rows = 1;
  for (int i = 0; i + 1 < view.rank; ++i) {
    rows = rows * static_cast<uint64_t>(view.shape[static_cast<size_t>(i)]);
  }
  const CheckedSize items = rows * columns;
  const CheckedSize bytes =
      rows * (CheckedSize(columns / block_items) * static_cast<uint64_t>(info.block_bytes));
  if (!items.AtMost(kMaxInt64) || !bytes.AtMost(bytes_.size())) {
    return cursor_.Invalid(fmt::format("shape of {}", field), offset,
                           fmt::format("at most the {} bytes of the file", bytes_.size()),
                           bytes.valid() ? fmt::format("{} bytes", *bytes.value())
                                         : std::string("more than 64 bits can count"));
  }
  entry.bytes = *bytes.value();
  return {};
}

Status GgufReader::PlaceTensors() {
  const CheckedSize data_start = CheckedSize(cursor_.offset()).AlignUp(alignment_);
  for (Entry& entry : entries_) {
    const std::string field = fmt::format("data of tensor {}", QuoteBytes(entry.tensor.name));
    if (entry.relative_offset % alignment_ != 0) {
      return cursor_.Invalid(field, entry.entry_offset,
                             fmt::format("an offset that is a multiple of {}", alignment_),
                             fmt::format("{}", entry.relative_offset));
    }
    const CheckedSize begin = data_start + entry.relative_offset;
    if (!(begin + entry.bytes).AtMost(bytes_.size())) {
      return cursor_.Invalid(
          field, entry.entry_offset, fmt::format("data inside the file ({} bytes)", bytes_.size()),
          fmt::format("{} bytes at {} of the data section", entry.bytes, entry.relative_offset));
    }
    // Kernels read numbers where they lie: a file with a smaller alignment must not misplace them.
    const uint64_t number_bytes = entry.tensor.view.dtype == DType::kF32 ? 4 : 2;
    if (*begin.value() % number_bytes != 0) {
      return cursor_.Invalid(field, entry.entry_offset,
                             fmt::format("data at a multiple of {} bytes", number_bytes),
                             fmt::format("byte {}", *begin.value()));
    }
    entry.tensor.file_offset = *begin.value();
    entry.tensor.view.data = bytes_.data() + *begin.value();
  }
  return {};
}

Status GgufReader::RefuseOverlap() const {
  std::vector<const Entry*> by_place;
  by_place.reserve(entries_.size());
  for (const Entry& entry : entries_) by_place.push_back(&entry);
  std::sort(by_place.begin(), by_place.end(), [](const Entry* a, const Entry* b) {
    return a->tensor.file_offset < b->tensor.file_offset;
  });
  for (size_t i = 1; i < by_place.size(); ++i) {
    const Entry& before = *by_place[i - 1];
    const Entry& after = *by_place[i];
    if ((CheckedSize(before.tensor.file_offset) + before.bytes).AtMost(after.tensor.file_offset)) {
      continue;
    }
    return cursor_.Invalid(fmt::format("data of tensor {}", QuoteBytes(after.tensor.name)),
                           after.entry_offset, "tensors that do not overlap",
                           fmt::format("bytes shared with {}", QuoteBytes(before.tensor.name)));
  }
  return {};
}

}  // namespace

Result<GgufDirectory> ParseGguf(std::span<const std::byte> bytes, const std::string& path) {
  return GgufReader(bytes, path).Read();
}

Result<std::unique_ptr<ModelFile>> ReadGguf(MappedFile file) {
  MOORING_ASSIGN_OR_RETURN(GgufDirectory directory, ParseGguf(file.bytes(), file.path().string()));
  std::string container = fmt::format("GGUF v{}", directory.version);
  // The dictionary has been copied out of what stands before the first tensor.
  uint64_t tensors_begin = file.bytes().size();
  for (const NamedTensor& tensor : directory.tensors) {
    tensors_begin = std::min(tensors_begin, tensor.file_offset);
  }
  file.AdviseDontNeed(file.bytes().first(tensors_begin));
  return std::make_unique<ModelFile>(std::move(file), std::move(container),
                                     std::move(directory.values), std::move(directory.tensors));
}

}  // namespace mooring
