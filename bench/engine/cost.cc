#include "bench/engine/cost.h"

namespace mooring {
namespace {

void AddProjection(const Projection& projection, double rows, StepCost* cost) {
  cost->macs += rows * static_cast<double>(projection.outputs() * projection.inputs());
  if (rows > 0) cost->bytes += static_cast<double>(projection.weight.bytes());
}

}  // namespace

StepCost CostOfStep(const Model& model, DType key_value, const StepShape& shape) {
  const Arch& arch = model.arch();
  StepCost cost;
  for (const LayerWeights& layer : model.weights().layers) {
    for (const Projection* projection :
         {&layer.query, &layer.key, &layer.value, &layer.attention_output, &layer.gate, &layer.up,
          &layer.down}) {
      AddProjection(*projection, shape.rows, &cost);
    }
  }
  AddProjection(model.weights().output, shape.logit_rows, &cost);
  const PageLayout layout = {key_value, arch.head_dim};
  const double token_bytes =
      static_cast<double>(layout.page_bytes()) / kPageSlots * arch.kv_heads * arch.layer_count();
  cost.bytes += shape.conversations * token_bytes * shape.attended;
  // Scores and weighted values.
  cost.macs += shape.rows * shape.attended * 2.0 * static_cast<double>(arch.query_dim()) *
               arch.layer_count();
  return cost;
}

}  // namespace mooring
