// Finds the tensors that a family names in a file, with the shapes that an architecture wants.
//
// Thread rule: one thread.
#ifndef MOORING_MODEL_BINDER_H_
#define MOORING_MODEL_BINDER_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "load/model_file.h"
#include "model/weights.h"
#include "tensor/tensor_view.h"

namespace mooring {

class Binder {
 public:
  // `prefix` stands before every name in the file.
  Binder(const ModelFile& file, Precision precision, const Kernels& kernels,
         std::string prefix = {})
      : file_(file), precision_(precision), kernels_(kernels), prefix_(std::move(prefix)) {}

  // The first failure (file, tensor, expected and found shape); later calls return empty things.
  const Status& status() const { return status_; }

  // {} in `pattern` stands for the layer; a pattern that ends in '?' may be missing. One row means
  // a tensor of rank 1.
  TensorView Matrix(std::string_view pattern, int layer, int64_t rows, int64_t columns);
  Projection Project(std::string_view pattern, int layer, int64_t outputs, int64_t inputs) {
    return ProjectionOf(Matrix(pattern, layer, outputs, inputs));
  }
  // With the arithmetic that goes with the format and the precision.
  Projection ProjectionOf(const TensorView& view) const;
  // `count` numbers as floats.
  std::vector<float> Numbers(std::string_view pattern, int layer, int64_t count);

 private:
  void Fail(std::string what, const std::string& tensor, std::string expected, std::string found);

  const ModelFile& file_;
  Precision precision_;
  const Kernels& kernels_;
  std::string prefix_;
  Status status_;
};

}  // namespace mooring

#endif  // MOORING_MODEL_BINDER_H_
