#include "model/binder.h"

#include <fmt/format.h>

namespace mooring {
namespace {

std::string ShapeText(const TensorView& view) {
  std::string text = "[";
  for (int i = 0; i < view.rank; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : ", ", view.shape[static_cast<size_t>(i)]);
  }
  return text + "]";
}

}  // namespace

TensorView Binder::Matrix(std::string_view pattern, int layer, int64_t rows, int64_t columns) {
  const bool optional = pattern.ends_with('?');
  if (optional) pattern.remove_suffix(1);
  const std::string name = prefix_ + fmt::format(fmt::runtime(pattern), layer);
  const NamedTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    if (!optional) Fail("a tensor of the model is missing", name, "a tensor of that name", "none");
    return {};
  }
  const TensorView& view = tensor->view;
  const bool fits = rows == 1 ? view.rank == 1 && view.columns() == columns
                              : view.rank == 2 && view.rows() == rows && view.columns() == columns;
  if (!fits) {
    Fail("a tensor has the wrong shape", name,
         rows == 1 ? fmt::format("[{}]", columns) : fmt::format("[{}, {}]", rows, columns),
         ShapeText(view));
    return {};
  }
  return view;
}

Projection Binder::ProjectionOf(const TensorView& view) const {
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

std::vector<float> Binder::Numbers(std::string_view pattern, int layer, int64_t count) {
  const TensorView view = Matrix(pattern, layer, 1, count);
  if (view.empty()) return {};
  std::vector<float> values(static_cast<size_t>(count));
  kernels_.formats[static_cast<size_t>(view.dtype)].dequantize(view.data, count, values.data());
  return values;
}

void Binder::Fail(std::string what, const std::string& tensor, std::string expected,
                  std::string found) {
  if (!status_.ok()) return;
  status_ = Error{.kind = ErrorKind::kModelInvalid,
                  .what = std::move(what),
                  .where = fmt::format("{}, tensor {}", file_.path().string(), tensor),
                  .expected = std::move(expected),
                  .found = std::move(found)};
}

}  // namespace mooring
