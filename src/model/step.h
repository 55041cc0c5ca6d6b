// One step: the tokens of many conversations that the model reads together.
//
// Rows of one conversation stand together, in the order of its log. A generated token and a chunk
// of a prompt are rows alike: there is no separate prefill.
//
// Thread rule: plain values.
#ifndef MOORING_MODEL_STEP_H_
#define MOORING_MODEL_STEP_H_

#include <span>

#include "base/token.h"
#include "tensor/kv_view.h"

namespace mooring {

// Consecutive rows [first_row, first_row + row_count) of one conversation.
struct StepPart {
  KvView memory;
  int first_row = 0;
  int row_count = 0;
};

struct Step {
  std::span<const TokenId> tokens;   // [rows]
  std::span<const RowPlace> places;  // [rows]
  std::span<const int> logit_rows;   // rows that want logits, ascending
  std::span<const StepPart> parts;   // cover the rows in order
};

}  // namespace mooring

#endif  // MOORING_MODEL_STEP_H_
