// A model: its architecture and its bound weights, and the one function that turns a step into
// logits and new keys and values.
//
// Thread rule: immutable after Load. Forward runs on one thread at a time per Backend and
// Workspace.
#ifndef MOORING_MODEL_MODEL_H_
#define MOORING_MODEL_MODEL_H_

#include <memory>

#include "base/result.h"
#include "kernels/backend.h"
#include "load/model_file.h"
#include "model/arch.h"
#include "model/families.h"
#include "model/step.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace mooring {

class Model {
 public:
  // Binds the file's tensors; weights stay in the mapped file. The model keeps the file.
  static Result<std::unique_ptr<Model>> Load(std::unique_ptr<ModelFile> file, Precision precision,
                                             Backend* backend);

  const Arch& arch() const { return arch_; }
  const ModelFile& file() const { return *file_; }
  const Weights& weights() const { return weights_; }
  Precision precision() const { return precision_; }
  Backend& backend() const { return *backend_; }

  // Reads the step's tokens: writes their keys and values into the pages of the step's views, and
  // the logits of the rows that want them into `workspace`. `rotary` has the turns that the windows
  // need. REQUIRES: the step is within the workspace's limits, token ids are in [0, vocab_size).
  // Allocates nothing.
  void Forward(const Step& step, const RotaryTable& rotary, Workspace* workspace) const;

 private:
  Model(std::unique_ptr<ModelFile> file, Precision precision, Backend* backend)
      : file_(std::move(file)), precision_(precision), backend_(backend) {}

  std::unique_ptr<ModelFile> file_;
  Precision precision_;
  Backend* backend_;
  Arch arch_;
  Weights weights_;
};

}  // namespace mooring

#endif  // MOORING_MODEL_MODEL_H_
