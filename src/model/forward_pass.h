// One run of Model::Forward: the step, the model and the buffers together, so that the parts of a
// layer read like the paper. Internal to model/.
#ifndef MOORING_MODEL_FORWARD_PASS_H_
#define MOORING_MODEL_FORWARD_PASS_H_

#include <span>

#include "model/model.h"

namespace mooring {

class ForwardPass {
 public:
  ForwardPass(const Model& model, const Step& step, const RotaryTable& rotary,
              Workspace* workspace);
  void Run();

 private:
  // A projection of the rows in hand and where its result goes, [rows, outputs].
  struct Use {
    const Projection* projection;
    float* out;
  };

  int64_t row_count() const { return static_cast<int64_t>(step_.tokens.size()); }
  template <typename F>
  void ForEachRow(F per_row);

  // forward.cc
  void Embed();
  void Layer(int layer);
  void Logits();
  // Puts activations [rows, count] into the forms that `uses` multiply by.
  void PrepareRow(std::span<const Use> uses, const float* x, int64_t row, int64_t count);
  void Multiply(std::span<const Use> uses, const float* input, int64_t rows);
  void Normalise(const std::vector<float>& weight, const float* residual,
                 std::span<const Use> uses);

  // attention.cc
  void ListBlocks();
  void AppendKeysAndValues(int layer);
  void Attend(int layer);
  AttendTask TaskOf(size_t block, int layer, int kv_head) const;
  void AttendWhole(size_t block, int layer, int kv_head, int thread);
  void AttendOneRun(size_t block, int layer, int kv_head, int run, int thread);
  void MergeRuns(size_t block, int layer, int kv_head);
  void Merge(const AttendTask& task, const float* run, float* total) const;
  void Finish(const AttendTask& task, const float* total, size_t block, int kv_head);
  float* CutStates(size_t block, int kv_head, int run);
  float* Scratch(int thread);

  const Model& model_;
  const Arch& arch_;
  const Kernels& kernels_;
  ThreadPool& pool_;
  const Step& step_;
  const RotaryTable& rotary_;
  Workspace& space_;
};

}  // namespace mooring

#endif  // MOORING_MODEL_FORWARD_PASS_H_
