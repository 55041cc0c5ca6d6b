// A model's weights, bound: each projection with the kernel that multiplies by it.
//
// Thread rule: immutable after BindWeights.
#ifndef MOORING_MODEL_WEIGHTS_H_
#define MOORING_MODEL_WEIGHTS_H_

#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "load/model_file.h"
#include "model/arch.h"
#include "model/families.h"
#include "tensor/tensor_view.h"

namespace mooring {

// What the user asks for. Under kInt8 quantised weights meet activations of 8 bits, under kAuto of
// 16: with 8 the perplexity of small models rises by 0.4 %, with 16 by nothing that shows
// (docs/performance.md). Weights that are not quantised are multiplied as floats.
enum class Precision : uint8_t { kAuto, kF32, kBF16, kF16, kInt8 };

// "auto", "fp32", "bf16", "fp16" or "int8"; kUsage otherwise.
Result<Precision> ParsePrecision(std::string_view name);
std::string_view NameOf(Precision precision);

// A weight matrix [outputs, inputs] and how it is multiplied.
struct Projection {
  TensorView weight;
  Arithmetic arithmetic = Arithmetic::kF32;
  MatmulFunction matmul = nullptr;

  int64_t outputs() const { return weight.rows(); }
  int64_t inputs() const { return weight.columns(); }
};

struct LayerWeights {
  std::vector<float> attention_norm;  // [embed]
  Projection query, key, value, attention_output;
  std::vector<float> ffn_norm;  // [embed]
  Projection gate, up, down;
};

struct Weights {
  TensorView embedding;  // [vocab, embed]
  DequantizeFunction embedding_row = nullptr;
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;  // [embed]
  Projection output;               // [vocab, embed]
  bool tied = false;               // the output is the embedding
};

// Finds every tensor the family names and checks its shape against the architecture. kModelInvalid
// names file, tensor, expected and found shape.
Result<Weights> BindWeights(const ModelFile& file, const Family& family, const Arch& arch,
                            Precision precision, const Kernels& kernels);

}  // namespace mooring

#endif  // MOORING_MODEL_WEIGHTS_H_
