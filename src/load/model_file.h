// A model file as names -> tensors and keys -> values, whatever container it came in.
//
// The file is mapped read-only and outlives every view into it. By the time an object of this class
// exists, every count, offset, length and type in it has been checked: tensors lie inside the file,
// do not overlap, and have whole blocks in each row.
//
// Thread rule: immutable after it is made; any thread may read.
#ifndef MOORING_LOAD_MODEL_FILE_H_
#define MOORING_LOAD_MODEL_FILE_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "load/mapped_file.h"
#include "tensor/tensor_view.h"

namespace mooring {

// A value of the file's dictionary. Integers of every width arrive as int64_t (a u64 above its
// range is refused), floats as double; arrays hold one kind of element.
using MetaValue = std::variant<bool, int64_t, double, std::string, std::vector<bool>,
                               std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;

struct NamedTensor {
  std::string name;
  TensorView view;
  uint64_t file_offset = 0;  // of the first byte, from the start of the file
};

class ModelFile {
 public:
  ModelFile(MappedFile file, std::string container, std::map<std::string, MetaValue> values,
            std::vector<NamedTensor> tensors);

  const std::filesystem::path& path() const { return file_.path(); }
  uint64_t file_bytes() const { return file_.bytes().size(); }
  const std::string& container() const { return container_; }  // "GGUF v3"
  // In the order of the file.
  std::span<const NamedTensor> tensors() const { return tensors_; }
  const std::map<std::string, MetaValue>& values() const { return values_; }

  // Null when there is no such tensor.
  const NamedTensor* FindTensor(std::string_view name) const;
  // Null when there is no such key.
  const MetaValue* FindValue(std::string_view key) const;

  // The value under `key` as a T (one of the kinds of MetaValue): kModelInvalid naming file, key,
  // expected and found kind when it is missing or of another kind. An integer is accepted where a
  // double is asked for.
  template <typename T>
  Result<T> Get(std::string_view key) const;
  // The same, with `fallback` for a missing key; a wrong kind is still an error.
  template <typename T>
  Result<T> GetOr(std::string_view key, T fallback) const;

 private:
  MappedFile file_;
  std::string container_;
  std::map<std::string, MetaValue> values_;
  std::vector<NamedTensor> tensors_;  // file order
  std::map<std::string, size_t, std::less<>> tensor_index_;
};

}  // namespace mooring

#endif  // MOORING_LOAD_MODEL_FILE_H_
