// A model's architecture as plain data: sizes, plus small enums per layer. No code, no virtuals: a
// new family is a row in families.cc, new maths is one enum value and one branch in forward.cc.
//
// Thread rule: plain values, immutable after load.
#ifndef MOORING_MODEL_ARCH_H_
#define MOORING_MODEL_ARCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensor/position.h"

namespace mooring {

// How the rotary pairs of a head lie in the file's query and key projections.
enum class PairOrder : uint8_t {
  kInterleaved,  // (2i, 2i + 1): put in half-split order right after the projection
  kHalfSplit,    // (i, i + rotary_dim / 2)
};

struct LayerSpec {
  PairOrder pair_order = PairOrder::kInterleaved;
};

struct Arch {
  std::string family;  // as the file calls it
  int64_t vocab_size = 0;
  int64_t embed_dim = 0;
  int64_t ffn_dim = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t trained_window = 0;  // tokens the model was trained to attend to
  float norm_epsilon = 0.0F;
  float attention_scale = 0.0F;  // on query-key products
  RotarySpec rotary;
  std::vector<LayerSpec> layers;

  int layer_count() const { return static_cast<int>(layers.size()); }
  int group() const { return query_heads / kv_heads; }  // query heads per kv head
  int64_t query_dim() const { return int64_t{query_heads} * head_dim; }
  int64_t kv_dim() const { return int64_t{kv_heads} * head_dim; }
};

// A sentence encoder's: attention that looks both ways, layer norms behind the residuals, learned
// positions, GELU.
struct EncoderArch {
  std::string family;  // as the file calls it
  int64_t vocab_size = 0;
  int64_t embed_dim = 0;
  int64_t ffn_dim = 0;
  int64_t positions = 0;  // most tokens that it has positions for
  int64_t segments = 0;   // kinds of text that it can tell apart; the first is used
  int heads = 0;
  int layer_count = 0;
  float norm_epsilon = 0.0F;

  int head_dim() const { return static_cast<int>(embed_dim / heads); }
};

}  // namespace mooring

#endif  // MOORING_MODEL_ARCH_H_
