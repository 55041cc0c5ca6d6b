#include "model/weights.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>

namespace mooring {
namespace {

constexpr std::array<std::pair<std::string_view, Precision>, 5> kPrecisions = {
    {{"auto", Precision::kAuto},
     {"fp32", Precision::kF32},
     {"bf16", Precision::kBF16},
     {"fp16", Precision::kF16},
     {"int8", Precision::kInt8}}};

std::string ShapeText(const TensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", view.shape[static_cast<size_t>(i)]);
  }
  return text + "]";
}

class Binder {
 public:
  Binder(const ModelFile& file, Precision precision, const Kernels& kernels)
      : file_(file), precision_(precision), kernels_(kernels) {}

  // Remembers the first failure; later calls return empty things.
  const Status& status() const { return status_; }

  TensorView Matrix(std::string_view pattern, int layer, int64_t rows, int64_t columns) {
    const bool optional = pattern.ends_with('?');
    if (optional) pattern.remove_suffix(1);
    const std::string name = fmt::format(fmt::runtime(pattern), layer);
    const NamedTensor* tensor = file_.FindTensor(name);
    if (tensor == nullptr) {
      if (!optional)
        Fail("a tensor of the model is missing", name, "a tensor of that name", "none");
      return {};
    }
    const TensorView& view = tensor->view;
    const bool fits = rows == 1
                          ? view.rank == 1 && view.columns() == columns
                          : view.rank == 2 && view.rows() == rows && view.columns() == columns;
    if (!fits) {
      Fail("a tensor has the wrong shape", name,
           rows == 1 ? fmt::format("[{}]", columns) : fmt::format("[{}, {}]", rows, columns),
           ShapeText(view));
      return {};
    }
    return view;
  }

  Projection Project(std::string_view pattern, int layer, int64_t outputs, int64_t inputs) {
    return ProjectionOf(Matrix(pattern, layer, outputs, inputs));
  }

  Projection ProjectionOf(const TensorView& view) const {
    Projection projection;
    projection.weight = view;
    const FormatKernels& format = kernels_.formats[static_cast<size_t>(view.dtype)];
    const bool integers = precision_ == Precision::kAuto || precision_ == Precision::kInt8;
    if (integers && format.matmul_int8 != nullptr) {
      const bool wide = precision_ == Precision::kAuto;
      projection.arithmetic = wide ? Arithmetic::kInt16 : Arithmetic::kInt8;
      projection.matmul = wide ? format.matmul_int16 : format.matmul_int8;
      return projection;
    }
    projection.matmul = format.matmul_float;
    if (precision_ == Precision::kF16) projection.arithmetic = Arithmetic::kF16;
    if (precision_ == Precision::kBF16) projection.arithmetic = Arithmetic::kBF16;
    return projection;
  }

  std::vector<float> Norm(std::string_view pattern, int layer, int64_t count) {
    const TensorView view = Matrix(pattern, layer, 1, count);
    if (view.empty()) return {};
    std::vector<float> values(static_cast<size_t>(count));
    kernels_.formats[static_cast<size_t>(view.dtype)].dequantize(view.data, count, values.data());
    return values;
  }

 private:
  void Fail(std::string what, const std::string& tensor, std::string expected, std::string found) {
    if (!status_.ok()) return;
    status_ = Error{.kind = ErrorKind::kModelInvalid,
                    .what = std::move(what),
                    .where = fmt::format("{}, tensor {}", file_.path().string(), tensor),
                    .expected = std::move(expected),
                    .found = std::move(found)};
  }

  const ModelFile& file_;
  Precision precision_;
  const Kernels& kernels_;
  Status status_;
};

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
  weights.output_norm = binder.Norm(names.output_norm, 0, arch.embed_dim);
  TensorView output = binder.Matrix(names.output, 0, arch.vocab_size, arch.embed_dim);
  weights.tied = output.empty();
  if (weights.tied) output = weights.embedding;
  weights.output = binder.ProjectionOf(output);
  for (int i = 0; i < arch.layer_count() && binder.status().ok(); ++i) {
    LayerWeights layer;
    layer.attention_norm = binder.Norm(names.attention_norm, i, arch.embed_dim);
    layer.query = binder.Project(names.query, i, arch.query_dim(), arch.embed_dim);
    layer.key = binder.Project(names.key, i, arch.kv_dim(), arch.embed_dim);
    layer.value = binder.Project(names.value, i, arch.kv_dim(), arch.embed_dim);
    layer.attention_output =
        binder.Project(names.attention_output, i, arch.embed_dim, arch.query_dim());
    layer.ffn_norm = binder.Norm(names.ffn_norm, i, arch.embed_dim);
    layer.gate = binder.Project(names.gate, i, arch.ffn_dim, arch.embed_dim);
    layer.up = binder.Project(names.up, i, arch.ffn_dim, arch.embed_dim);
    layer.down = binder.Project(names.down, i, arch.embed_dim, arch.ffn_dim);
    weights.layers.push_back(std::move(layer));
  }
  if (!binder.status().ok()) return binder.status().error();
  return weights;
}

}  // namespace mooring
