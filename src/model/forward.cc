#include <algorithm>
#include <array>

#include "model/forward_pass.h"

namespace mooring {
namespace {

// Outputs per work item: enough to be worth a hand-over, few enough that threads end together.
int64_t ChunkOf(int64_t outputs, int thread_count) {
  if (thread_count == 1) return outputs;
  return std::clamp<int64_t>(outputs / (thread_count * 8) / 16 * 16, 16, 512);
}

}  // namespace

void Model::Forward(const Step& step, const RotaryTable& rotary, Workspace* workspace) const {
  ForwardPass(*this, step, rotary, workspace).Run();
}

ForwardPass::ForwardPass(const Model& model, const Step& step, const RotaryTable& rotary,
                         Workspace* workspace)
    : model_(model),
      arch_(model.arch()),
      kernels_(model.backend().kernels()),
      pool_(model.backend().pool()),
      step_(step),
      rotary_(rotary),
      space_(*workspace) {
  const StepLimits& limits = space_.limits_;
  CHECK(row_count() >= 1 && row_count() <= limits.rows);
  CHECK(step.logit_rows.size() <= static_cast<size_t>(limits.logit_rows));
  CHECK(step.parts.size() <= static_cast<size_t>(limits.parts));
}

void ForwardPass::Run() {
  ListBlocks();
  Embed();
  for (int layer = 0; layer < arch_.layer_count(); ++layer) Layer(layer);
  Logits();
}

template <typename F>
void ForwardPass::ForEachRow(F per_row) {
  pool_.Run(row_count(), [&](int64_t row, int /*thread*/) { per_row(row); });
}

void ForwardPass::Embed() {
  const Weights& weights = model_.weights();
  ForEachRow([&](int64_t row) {
    const TokenId token = step_.tokens[static_cast<size_t>(row)];
    DCHECK(token >= 0 && token < arch_.vocab_size);
    weights.embedding_row(weights.embedding.row(token), arch_.embed_dim,
                          space_.hidden_.data() + row * arch_.embed_dim);
  });
}

void ForwardPass::Layer(int layer) {
  const LayerWeights& weights = model_.weights().layers[static_cast<size_t>(layer)];
  const std::array<Use, 3> qkv = {{{&weights.query, space_.query_.data()},
                                   {&weights.key, space_.key_.data()},
                                   {&weights.value, space_.value_.data()}}};
  // What the layer before projected is added here, so that a row is walked once.
  Normalise(weights.attention_norm, layer == 0 ? nullptr : space_.projected_.data(), qkv);
  Multiply(qkv, space_.normed_.data(), row_count());
  AppendKeysAndValues(layer);
  Attend(layer);

  const std::array<Use, 1> output = {{{&weights.attention_output, space_.projected_.data()}}};
  ForEachRow([&](int64_t row) {
    PrepareRow(output, space_.attended_.data() + row * arch_.query_dim(), row, arch_.query_dim());
  });
  Multiply(output, space_.attended_.data(), row_count());

  const std::array<Use, 2> gate_up = {
      {{&weights.gate, space_.gate_.data()}, {&weights.up, space_.up_.data()}}};
  Normalise(weights.ffn_norm, space_.projected_.data(), gate_up);
  Multiply(gate_up, space_.normed_.data(), row_count());

  const std::array<Use, 1> down = {{{&weights.down, space_.projected_.data()}}};
  ForEachRow([&](int64_t row) {
    float* gate = space_.gate_.data() + row * arch_.ffn_dim;
    kernels_.SwiGlu(gate, space_.up_.data() + row * arch_.ffn_dim, arch_.ffn_dim, gate);
    PrepareRow(down, gate, row, arch_.ffn_dim);
  });
  Multiply(down, space_.gate_.data(), row_count());
}

void ForwardPass::Normalise(const std::vector<float>& weight, const float* residual,
                            std::span<const Use> uses) {
  ForEachRow([&](int64_t row) {
    float* hidden = space_.hidden_.data() + row * arch_.embed_dim;
    float* normed = space_.normed_.data() + row * arch_.embed_dim;
    if (residual != nullptr) {
      kernels_.Add(residual + row * arch_.embed_dim, arch_.embed_dim, hidden);
    }
    kernels_.RmsNorm(hidden, weight.data(), arch_.norm_epsilon, arch_.embed_dim, normed);
    PrepareRow(uses, normed, row, arch_.embed_dim);
  });
}

void ForwardPass::PrepareRow(std::span<const Use> uses, const float* x, int64_t row,
                             int64_t count) {
  bool int8 = false;
  bool int16 = false;
  bool rounded = false;
  DType type = DType::kF16;
  for (const Use& use : uses) {
    const Arithmetic arithmetic = use.projection->arithmetic;
    int8 |= arithmetic == Arithmetic::kInt8;
    int16 |= arithmetic == Arithmetic::kInt16;
    rounded |= arithmetic == Arithmetic::kF16 || arithmetic == Arithmetic::kBF16;
    if (arithmetic == Arithmetic::kBF16) type = DType::kBF16;
  }
  const int64_t first_block = row * (count / kBlockItems);
  if (int8) kernels_.QuantizeInt8(x, count, space_.int8_.data() + first_block);
  if (int16) kernels_.QuantizeInt16(x, count, space_.int16_.data() + first_block);
  if (rounded) kernels_.RoundRow(type, x, count, space_.rounded_.data() + row * count);
}

void ForwardPass::Multiply(std::span<const Use> uses, const float* input, int64_t rows) {
  std::array<MatmulTask, 3> tasks;
  std::array<int64_t, 4> first_item = {0, 0, 0, 0};
  std::array<int64_t, 3> chunk = {0, 0, 0};
  for (size_t i = 0; i < uses.size(); ++i) {
    const Projection& projection = *uses[i].projection;
    const bool floats = projection.arithmetic == Arithmetic::kF32;
    tasks[i] = {.weights = projection.weight.data,
                .weight_row_bytes = projection.weight.row_bytes(),
                .in_dim = projection.inputs(),
                .row_count = rows,
                .input = floats ? input : space_.rounded_.data(),
                .int8 = space_.int8_.data(),
                .int16 = space_.int16_.data(),
                .out = uses[i].out,
                .out_stride = projection.outputs()};
    chunk[i] = ChunkOf(projection.outputs(), pool_.thread_count());
    first_item[i + 1] = first_item[i] + (projection.outputs() + chunk[i] - 1) / chunk[i];
  }
  pool_.Run(first_item[uses.size()], [&](int64_t item, int /*thread*/) {
    size_t i = 0;
    while (item >= first_item[i + 1]) ++i;
    const int64_t begin = (item - first_item[i]) * chunk[i];
    const int64_t end = std::min(begin + chunk[i], uses[i].projection->outputs());
    uses[i].projection->matmul(tasks[i], begin, end);
  });
}

void ForwardPass::Logits() {
  const std::span<const int> wanted = step_.logit_rows;
  if (wanted.empty()) return;
  const Weights& weights = model_.weights();
  const std::array<Use, 1> output = {{{&weights.output, space_.logits_.data()}}};
  pool_.Run(static_cast<int64_t>(wanted.size()), [&](int64_t i, int /*thread*/) {
    const int64_t row = wanted[static_cast<size_t>(i)];
    float* hidden = space_.hidden_.data() + row * arch_.embed_dim;
    float* normed = space_.normed_.data() + i * arch_.embed_dim;
    kernels_.Add(space_.projected_.data() + row * arch_.embed_dim, arch_.embed_dim, hidden);
    kernels_.RmsNorm(hidden, weights.output_norm.data(), arch_.norm_epsilon, arch_.embed_dim,
                     normed);
    PrepareRow(output, normed, i, arch_.embed_dim);
  });
  Multiply(output, space_.normed_.data(), static_cast<int64_t>(wanted.size()));
}

}  // namespace mooring
