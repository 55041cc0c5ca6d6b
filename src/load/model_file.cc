#include "load/model_file.h"

#include <fmt/format.h>

#include <array>
#include <type_traits>
#include <utility>

#include "load/quote.h"

namespace mooring {
namespace {

// In the order of MetaValue's alternatives.
constexpr std::array<std::string_view, std::variant_size_v<MetaValue>> kKindNames = {
    "a bool",
    "an integer",
    "a float",
    "a string",
    "an array of bool",
    "an array of integers",
    "an array of floats",
    "an array of strings"};

template <typename T>
std::string KindName() {
  return std::string(kKindNames[MetaValue(T()).index()]);
}

// The value as a T, where that loses nothing.
template <typename T>
std::optional<T> ValueAs(const MetaValue& value) {
  if (const T* exact = std::get_if<T>(&value)) return *exact;
  if constexpr (std::is_same_v<T, double>) {
    if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  }
  return std::nullopt;
}

Error KeyError(const ModelFile& file, std::string_view key, std::string expected,
               std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the model file lacks a value that is needed",
               .where = fmt::format("{}, key {}", file.path().string(), QuoteBytes(key)),
               .expected = std::move(expected),
               .found = std::move(found)};
}

}  // namespace

ModelFile::ModelFile(MappedFile file, std::string container,
                     std::map<std::string, MetaValue> values, std::vector<NamedTensor> tensors)
    : file_(std::move(file)),
      container_(std::move(container)),
      values_(std::move(values)),
      tensors_(std::move(tensors)) {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const bool is_new = tensor_index_.emplace(tensors_[i].name, i).second;
    CHECK(is_new, "a reader let tensor {} through twice", QuoteBytes(tensors_[i].name));
  }
}

const NamedTensor* ModelFile::FindTensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const MetaValue* ModelFile::FindValue(std::string_view key) const {
  const auto found = values_.find(std::string(key));
  return found == values_.end() ? nullptr : &found->second;
}

template <typename T>
Result<T> ModelFile::Get(std::string_view key) const {
  const MetaValue* value = FindValue(key);
  if (value == nullptr) return KeyError(*this, key, KindName<T>(), "no such key");
  std::optional<T> wanted = ValueAs<T>(*value);
  if (wanted.has_value()) return *std::move(wanted);
  return KeyError(*this, key, KindName<T>(), std::string(kKindNames[value->index()]));
}

template <typename T>
Result<T> ModelFile::GetOr(std::string_view key, T fallback) const {
  if (FindValue(key) == nullptr) return fallback;
  return Get<T>(key);
}

#define MOORING_INSTANTIATE_GET(T)                              \
  template Result<T> ModelFile::Get<T>(std::string_view) const; \
  template Result<T> ModelFile::GetOr<T>(std::string_view, T) const;
MOORING_INSTANTIATE_GET(bool)
MOORING_INSTANTIATE_GET(int64_t)
MOORING_INSTANTIATE_GET(double)
MOORING_INSTANTIATE_GET(std::string)
MOORING_INSTANTIATE_GET(std::vector<bool>)
MOORING_INSTANTIATE_GET(std::vector<int64_t>)
MOORING_INSTANTIATE_GET(std::vector<double>)
MOORING_INSTANTIATE_GET(std::vector<std::string>)
#undef MOORING_INSTANTIATE_GET

}  // namespace mooring
