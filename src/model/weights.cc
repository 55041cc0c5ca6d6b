#include "model/weights.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

#include "model/binder.h"

namespace mooring {
namespace {

constexpr std::array<std::pair<std::string_view, Precision>, 5> kPrecisions = {
    {{"auto", Precision::kAuto},
     {"fp32", Precision::kF32},
     {"bf16", Precision::kBF16},
     {"fp16", Precision::kF16},
     {"int8", Precision::kInt8}}};

}  // namespace

Result<Precision> ParsePrecision(std::string_view name) {
  for (const auto& [known, precision] : kPrecisions) {
    if (known == name) return precision;
  }
  return Error{.kind = ErrorKind::kUsage,
               .what = "unknown precision",
               .where = "precision",
               .expected = "auto, fp32, bf16, fp16 or int8",
               .found = std::string(name)};
}

std::string_view NameOf(Precision precision) {
  return kPrecisions[static_cast<size_t>(precision)].first;
}

Result<Weights> BindWeights(const ModelFile& file, const Family& family, const Arch& arch,
                            Precision precision, const Kernels& kernels) {
  const TensorNames& names = family.names;
  Binder binder(file, precision, kernels);
  Weights weights;
  weights.embedding = binder.Matrix(names.embedding, 0, arch.vocab_size, arch.embed_dim);
  weights.embedding_row = kernels.formats[static_cast<size_t>(weights.embedding.dtype)].dequantize;
  weights.output_norm = binder.Numbers(names.output_norm, 0, arch.embed_dim);
  TensorView output = binder.Matrix(names.output, 0, arch.vocab_size, arch.embed_dim);
  weights.tied = output.empty();
  if (weights.tied) output = weights.embedding;
  weights.output = binder.ProjectionOf(output);
  for (int i = 0; i < arch.layer_count() && binder.status().ok(); ++i) {
    LayerWeights layer;
    layer.attention_norm = binder.Numbers(names.attention_norm, i, arch.embed_dim);
    layer.query = binder.Project(names.query, i, arch.query_dim(), arch.embed_dim);
    layer.key = binder.Project(names.key, i, arch.kv_dim(), arch.embed_dim);
    layer.value = binder.Project(names.value, i, arch.kv_dim(), arch.embed_dim);
    layer.attention_output =
        binder.Project(names.attention_output, i, arch.embed_dim, arch.query_dim());
    layer.ffn_norm = binder.Numbers(names.ffn_norm, i, arch.embed_dim);
    layer.gate = binder.Project(names.gate, i, arch.ffn_dim, arch.embed_dim);
    layer.up = binder.Project(names.up, i, arch.ffn_dim, arch.embed_dim);
    layer.down = binder.Project(names.down, i, arch.embed_dim, arch.ffn_dim);
    weights.layers.push_back(std::move(layer));
  }
  if (!binder.status().ok()) return binder.status().error();
  return weights;
}

}  // namespace mooring
