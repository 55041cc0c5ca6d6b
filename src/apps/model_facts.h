// What `list` and `show` say about a model file.
//
// Thread rule: pure functions of the file.
#ifndef MOORING_APPS_MODEL_FACTS_H_
#define MOORING_APPS_MODEL_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/model_file.h"
#include "model/arch.h"
#include "tensor/dtype.h"

namespace mooring {

struct TensorClass {
  std::string name = {};  // "attention", "feed forward", ...
  std::map<DType, uint64_t> bytes_per_type = {};
  uint64_t tensor_count = 0;
  uint64_t parameters = 0;
};

struct ModelFacts {
  std::string title = {};         // general.name, or empty
  std::string architecture = {};  // as the file calls it
  std::string licence = {};
  std::optional<Arch> arch = {};            // of a family that this build knows
  std::optional<EncoderArch> encoder = {};  // of a sentence encoder that this build knows
  std::string why_no_arch = {};             // of what is neither
  std::vector<TensorClass> classes = {};
  std::string weight_type = {};  // the type of most bytes: "Q4_1"
  uint64_t parameters = 0;
};

ModelFacts FactsOf(const ModelFile& file);

// "Q4_1, Q8_0", largest first.
std::string TypesText(const std::map<DType, uint64_t>& bytes_per_type);
// "134.5 M".
std::string CountText(uint64_t count);

}  // namespace mooring

#endif  // MOORING_APPS_MODEL_FACTS_H_
