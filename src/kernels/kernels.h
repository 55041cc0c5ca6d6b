// The maths of a model step, as a table of pure functions: one table per instruction set.
//
// Every function exists in kernels/ref as plain C++, the oracle and the text to read; the fast
// tables keep its names, arguments and order. A kernel allocates nothing, keeps no state and knows
// neither a policy nor a model.
//
// The law: what a kernel computes for a row depends on that row and its operands only, never on how
// many rows came with it or on which thread ran it. Within one table the result is the same bits.
//
// Arrays state their shape slowest first; `float` arrays need no alignment unless said.
//
// Thread rule: pure functions; calls that write different outputs may run at the same time.
#ifndef MOORING_KERNELS_KERNELS_H_
#define MOORING_KERNELS_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "tensor/dtype.h"
#include "tensor/kv_view.h"
#include "tensor/position.h"

namespace mooring {

// How the products of a matmul are computed; chosen per tensor at load, never per step.
enum class Arithmetic : uint8_t {
  kF32,    // weights and activations as floats, float sums
  kF16,    // activations rounded to half, then as kF32
  kBF16,   // activations rounded to bfloat16, then as kF32
  kInt8,   // activations quantised per 32 items, integer products inside a block, float across
           // blocks
  kInt16,  // the same with activations of 16 bits
};

// 32 activations: item i is quant[i] * scale, scale = max |x| / kMost, rounded to nearest, ties to
// even.
template <typename Item>
struct QuantBlock {
  static constexpr float kMost = std::numeric_limits<Item>::max();
  float scale;
  float weighted_sum;  // scale * (sum of quant), for weight formats with an offset
  Item quant[kBlockItems];
};
using Int8Block = QuantBlock<int8_t>;
using Int16Block = QuantBlock<int16_t>;

// A block whose largest |x| is below this quantises to zeros with scale 0: its inverse scale must
// stay finite.
inline constexpr float kQuantizeToZero = 0x1.0p-100F;

// out[row, n] = sum over k of input[row, k] * weights[n, k], for n in [begin, end).
struct MatmulTask {
  const std::byte* weights = nullptr;  // [outputs, in_dim], rows of blocks
  int64_t weight_row_bytes = 0;
  int64_t in_dim = 0;  // multiple of the format's block
  int64_t row_count = 0;
  // The activations of every row, as the function reads them.
  const float* input = nullptr;       // [row_count, in_dim]
  const Int8Block* int8 = nullptr;    // [row_count, in_dim / 32]
  const Int16Block* int16 = nullptr;  // [row_count, in_dim / 32]
  float* out = nullptr;               // [row_count, out_stride]
  int64_t out_stride = 0;
};

using MatmulFunction = void (*)(const MatmulTask& task, int64_t begin, int64_t end);
using DequantizeFunction = void (*)(const std::byte* row, int64_t count, float* out);

// What a table can do with one weight format.
struct FormatKernels {
  DequantizeFunction dequantize =
      nullptr;  // `count` items, a multiple of the block, to floats: exact
  MatmulFunction matmul_float = nullptr;  // reads task.input
  // Read task.int8 and task.int16; null where the format is not integer.
  MatmulFunction matmul_int8 = nullptr;
  MatmulFunction matmul_int16 = nullptr;
};

// Partial attention of one row and query head over some pages: the largest score, the sum of
// exp(score - max) and the values weighted by the same, [2 + head_dim] floats. A state that has
// seen nothing has max = -infinity, sum = 0 and values 0. States merge: FlashAttention (Dao 2022),
// online softmax (Milakov and Gimelshein 2018).
inline constexpr int64_t AttentionStateFloats(int head_dim) { return 2 + head_dim; }

// Rows of one conversation against the pages of one kv head.
struct AttendTask {
  PageLayout layout;
  const PageRef* pages = nullptr;       // the head's pages
  int64_t page_count = 0;               // of them, those that some row may see
  const RotaryTable* rotary = nullptr;  // half_dim 0: no rotation
  const RowPlace* places = nullptr;     // [row_count]
  int row_count = 0;                    // at most kAttendRows
  int group = 0;                        // query heads that share the kv head
  const float* queries = nullptr;       // row r, head g: queries + r * query_stride + g * head_dim
  int64_t query_stride = 0;             // not rotated yet
  float scale = 1.0F;                   // on the scores, usually 1 / sqrt(head_dim)
};
inline constexpr int kAttendRows = kPageSlots;
inline constexpr int kMaxHeadDim = 256;

// Floats of scratch (64-byte aligned, contents irrelevant) that AttendPages needs.
inline constexpr int64_t AttendScratchFloats(int head_dim, int group) {
  // Turned queries and weights of one row's heads, and one page's keys and values as floats.
  return static_cast<int64_t>(group) * (head_dim + kPageSlots) + 2LL * kPageSlots * head_dim + 64;
}

struct Kernels {
  std::string_view name;  // "ref", "avx2", "avx512"

  std::array<FormatKernels, kDTypeCount> formats;

  // out[i] = x[i] / sqrt(mean(x^2) + epsilon) * weight[i]. In place allowed. (Zhang and Sennrich
  // 2019)
  void (*RmsNorm)(const float* x, const float* weight, float epsilon, int64_t count, float* out);
  // out[i] = (x[i] - mean(x)) / sqrt(variance(x) + epsilon) * weight[i] + bias[i], the variance
  // over all items. In place allowed. (Ba et al. 2016)
  void (*LayerNorm)(const float* x, const float* weight, const float* bias, float epsilon,
                    int64_t count, float* out);
  // x[i] += y[i].
  void (*Add)(const float* y, int64_t count, float* x);
  // out[i] = silu(gate[i]) * up[i]. In place allowed. (Shazeer 2020)
  void (*SwiGlu)(const float* gate, const float* up, int64_t count, float* out);
  // out[i] = x[i] / 2 * (1 + erf(x[i] / sqrt(2))). In place allowed. (Hendrycks and Gimpel 2016)
  void (*Gelu)(const float* x, int64_t count, float* out);
  // x[i] = exp(x[i]) / sum(exp(x)). REQUIRES: count >= 1, finite values.
  void (*Softmax)(int64_t count, float* x);
  // count a multiple of 32; blocks [count / 32].
  void (*QuantizeInt8)(const float* x, int64_t count, Int8Block* blocks);
  void (*QuantizeInt16)(const float* x, int64_t count, Int16Block* blocks);
  // out[i] = x[i] rounded to kF16 or kBF16 and back. In place allowed.
  void (*RoundRow)(DType dtype, const float* x, int64_t count, float* out);
  // The index of the largest value, the first of equals; NaN never wins. REQUIRES: count >= 1.
  int64_t (*ArgMax)(const float* x, int64_t count);
  // log(sum(exp(x))) in double, for losses. REQUIRES: count >= 1, finite values.
  double (*LogSumExp)(const float* x, int64_t count);

  // Writes one token into slot `slot` of a page: `key` [head_dim], not rotated yet, is turned by
  // the slot and stored transposed; `value` [head_dim] is stored as it is. Rounds to the page's
  // type.
  void (*Append)(const PageLayout& layout, const RotaryTable* rotary, int slot, const float* key,
                 const float* value, std::byte* page);
  // For every row and query head, the attention over pages [page_begin, page_end), which belong to
  // one run, into states [row_count, group, AttentionStateFloats]. Pages and slots that a row does
  // not see change nothing, not even a rounding.
  void (*AttendPages)(const AttendTask& task, int64_t page_begin, int64_t page_end, float* states,
                      float* scratch);
  // into = into and from together; order matters for the last bit, so callers merge by ordinal.
  void (*MergeAttention)(const float* from, int head_dim, float* into);
  // out [head_dim] = the weighted values divided by their sum; zeros if nothing was seen.
  void (*FinishAttention)(const float* state, int head_dim, float* out);
};

}  // namespace mooring

#endif  // MOORING_KERNELS_KERNELS_H_
