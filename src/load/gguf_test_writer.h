// Builds GGUF files in memory for tests: well formed by default, wrong in any way a test asks for.
//
// Thread rule: one thread.
#ifndef MOORING_LOAD_GGUF_TEST_WRITER_H_
#define MOORING_LOAD_GGUF_TEST_WRITER_H_

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "load/gguf_types.h"
#include "tensor/dtype.h"

namespace mooring {

class GgufWriter {
 public:
  // The GGUF type follows from T: every integer width, float, double, bool, std::string (or a
  // literal), or a std::vector of one of them.
  template <typename T>
  GgufWriter& AddValue(std::string_view key, const T& value) {
    std::string body;
    if constexpr (std::is_convertible_v<T, std::string_view>) {
      AppendText(body, std::string_view(value));
      return AddRawValue(key, 8, body);
    } else {
      AppendNumber(body, value);
      return AddRawValue(key, TypeId<T>(), body);
    }
  }
  template <typename T>
  GgufWriter& AddValue(std::string_view key, const std::vector<T>& items) {
    std::string body;
    AppendNumber(body, TypeId<T>());
    AppendNumber(body, static_cast<uint64_t>(items.size()));
    for (const T& item : items) {
      if constexpr (std::is_same_v<T, std::string>) {
        AppendText(body, item);
      } else {
        AppendNumber(body, static_cast<T>(item));
      }
    }
    return AddRawValue(key, 9, body);
  }
  GgufWriter& AddRawValue(std::string_view key, uint32_t type, std::string_view body) {
    AppendText(values_, key);
    AppendNumber(values_, type);
    values_ += body;
    ++key_count_;
    return *this;
  }

  // `shape` slowest first, as in TensorView; `data` the bytes of all blocks. The tensor is placed
  // after those before it.
  GgufWriter& AddTensor(std::string_view name, DType dtype, const std::vector<int64_t>& shape,
                        std::string_view data) {
    std::vector<uint64_t> dims(shape.rbegin(), shape.rend());
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    AddRawTensor(name, dims, GgufIdOf(dtype), data_.size());
    data_ += data;
    return *this;
  }
  // A directory entry alone, `dims` fastest first, as the file has it.
  GgufWriter& AddRawTensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                           uint64_t offset, std::optional<uint32_t> rank = std::nullopt) {
    AppendText(directory_, name);
    AppendNumber(directory_, rank.value_or(static_cast<uint32_t>(dims.size())));
    for (const uint64_t dim : dims) AppendNumber(directory_, dim);
    AppendNumber(directory_, type);
    AppendNumber(directory_, offset);
    ++tensor_count_;
    return *this;
  }
  // Bytes at the end of the data section, for AddRawTensor.
  GgufWriter& AddData(std::string_view data) {
    data_ += data;
    return *this;
  }

  // Call before AddTensor: how tensors are placed, and the key that says so.
  GgufWriter& SetAlignment(uint32_t alignment) {
    alignment_ = alignment;
    return AddValue("general.alignment", alignment);
  }
  GgufWriter& SetTensorCount(uint64_t count) {
    tensor_count_ = count;
    return *this;
  }
  GgufWriter& SetKeyCount(uint64_t count) {
    key_count_ = count;
    return *this;
  }

  std::string Build(uint32_t version = 3) const {
    std::string file = "GGUF";
    AppendNumber(file, version);
    AppendNumber(file, tensor_count_);
    AppendNumber(file, key_count_);
    file += values_;
    file += directory_;
    if (!data_.empty()) file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_);
    return file + data_;
  }

  template <typename T>
  static void AppendNumber(std::string& to, T value) {
    static_assert(std::is_arithmetic_v<T>);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    to.append(bytes, sizeof(T));
  }
  static void AppendText(std::string& to, std::string_view text) {
    AppendNumber(to, static_cast<uint64_t>(text.size()));
    to += text;
  }

 private:
  template <typename T>
  static constexpr uint32_t TypeId() {
    if constexpr (std::is_same_v<T, bool>) return 7;
    if constexpr (std::is_same_v<T, std::string>) return 8;
    if constexpr (std::is_floating_point_v<T>) return sizeof(T) == 4 ? 6 : 12;
    constexpr uint32_t kSigned = std::is_signed_v<T> ? 1 : 0;
    switch (sizeof(T)) {
      case 1:
        return 0 + kSigned;
      case 2:
        return 2 + kSigned;
      case 4:
        return 4 + kSigned;
      default:
        return 10 + kSigned;
    }
  }

  std::string values_;
  std::string directory_;
  std::string data_;
  uint64_t key_count_ = 0;
  uint64_t tensor_count_ = 0;
  uint64_t alignment_ = 32;
};

}  // namespace mooring

#endif  // MOORING_LOAD_GGUF_TEST_WRITER_H_
