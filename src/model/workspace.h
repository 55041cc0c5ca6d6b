// The buffers of a step, taken once: Forward allocates nothing.
//
// Thread rule: belongs to one Forward at a time.
#ifndef MOORING_MODEL_WORKSPACE_H_
#define MOORING_MODEL_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"
#include "model/arch.h"

namespace mooring {

// The most that one step may hold.
struct StepLimits {
  int rows = 128;      // tokens
  int logit_rows = 8;  // rows that want logits
  int parts = 8;       // conversations
  int32_t window = 0;  // slots that a conversation's head may hold, at most
};

// Rows of one conversation that share a page: the unit of attention.
struct QueryBlock {
  int part = 0;
  int first_row = 0;
  int row_count = 0;
};

// A fixed array of floats (or blocks) on its own cache lines.
template <typename T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(size_t count)
      : data_(static_cast<T*>(::operator new[](count * sizeof(T) + 1, kAlignment))),
        count_(count) {}
  T* data() const { return data_.get(); }
  size_t bytes() const { return count_ * sizeof(T); }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(T* data) const { ::operator delete[](static_cast<void*>(data), kAlignment); }
  };
  std::unique_ptr<T[], Free> data_;
  size_t count_ = 0;
};

class Workspace {
 public:
  Workspace(const Arch& arch, const StepLimits& limits, int thread_count);

  const StepLimits& limits() const { return limits_; }
  size_t bytes() const;

  // After Forward: the logits of the i-th row that wanted them, [vocab].
  std::span<const float> logits(int index) const {
    return {logits_.data() + static_cast<size_t>(index) * vocab_size_, vocab_size_};
  }

 private:
  friend class ForwardPass;

  StepLimits limits_;
  size_t vocab_size_;
  AlignedArray<float> hidden_;  // [rows, embed]
  AlignedArray<float> normed_;  // [rows, embed]
  AlignedArray<float>
      projected_;              // [rows, embed]: what attention or the FFN adds to the hidden rows
  AlignedArray<float> query_;  // [rows, query_dim]
  AlignedArray<float> key_;    // [rows, kv_dim]
  AlignedArray<float> value_;  // [rows, kv_dim]
  AlignedArray<float> attended_;  // [rows, query_dim]
  AlignedArray<float> gate_;      // [rows, ffn]
  AlignedArray<float> up_;        // [rows, ffn]
  AlignedArray<float> rounded_;   // [rows, widest input]: activations in 16 bit, for kF16 and kBF16
  AlignedArray<Int8Block> int8_;  // [rows, widest input / 32]
  AlignedArray<Int16Block> int16_;  // [rows, widest input / 32]
  AlignedArray<float> logits_;      // [logit_rows, vocab]
  AlignedArray<float> states_;      // [cut blocks, kv heads, runs, block states], see attention.cc
  AlignedArray<float> scratch_;     // [threads, scratch_floats_]
  size_t cut_block_count_;          // query blocks that may be cut by runs at once
  size_t run_count_;                // runs that a head may have
  size_t block_state_floats_;       // the states of all rows and query heads of a block
  size_t scratch_floats_;
  std::vector<QueryBlock> blocks_;
};

}  // namespace mooring

#endif  // MOORING_MODEL_WORKSPACE_H_
