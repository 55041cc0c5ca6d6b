// What a step of a model moves and multiplies, counted from shapes: no measurement.
//
// Thread rule: pure functions.
#ifndef MOORING_BENCH_ENGINE_COST_H_
#define MOORING_BENCH_ENGINE_COST_H_

#include "model/model.h"

namespace mooring {

struct StepShape {
  double rows = 1;           // tokens in all
  double logit_rows = 1;     // of them, those with logits
  double conversations = 1;  // that the rows belong to
  double attended = 0;       // tokens that a row attends to, on average
};

struct StepCost {
  double bytes = 0;  // weights once, and the pages of every conversation once
  double macs = 0;   // multiply-adds of projections and attention
};

// REQUIRES: `key_value` is one of kKeyValueTypes.
StepCost CostOfStep(const Model& model, DType key_value, const StepShape& shape);

}  // namespace mooring

#endif  // MOORING_BENCH_ENGINE_COST_H_
