#include "model/workspace.h"

#include <algorithm>

namespace mooring {

Workspace::Workspace(const Arch& arch, const StepLimits& limits, int thread_count)
    : limits_(limits), vocab_size_(static_cast<size_t>(arch.vocab_size)) {
  const auto rows = static_cast<size_t>(limits.rows);
  const auto embed = static_cast<size_t>(arch.embed_dim);
  const auto query_dim = static_cast<size_t>(arch.query_dim());
  const auto kv_dim = static_cast<size_t>(arch.kv_dim());
  const auto ffn = static_cast<size_t>(arch.ffn_dim);
  const size_t widest = std::max({embed, query_dim, ffn});
  hidden_ = AlignedArray<float>(rows * embed);
  normed_ = AlignedArray<float>(rows * embed);
  projected_ = AlignedArray<float>(rows * embed);
  query_ = AlignedArray<float>(rows * query_dim);
  key_ = AlignedArray<float>(rows * kv_dim);
  value_ = AlignedArray<float>(rows * kv_dim);
  attended_ = AlignedArray<float>(rows * query_dim);
  gate_ = AlignedArray<float>(rows * ffn);
  up_ = AlignedArray<float>(rows * ffn);
  rounded_ = AlignedArray<float>(rows * widest);
  int8_ = AlignedArray<Int8Block>(rows * (widest / kBlockItems + 1));
  int16_ = AlignedArray<Int16Block>(rows * (widest / kBlockItems + 1));
  logits_ = AlignedArray<float>(static_cast<size_t>(limits.logit_rows) * vocab_size_);
  block_state_floats_ = static_cast<size_t>(arch.group()) * kAttendRows *
                        static_cast<size_t>(AttentionStateFloats(arch.head_dim));
  const auto threads = static_cast<size_t>(thread_count);
  cut_block_count_ = std::max(static_cast<size_t>(limits.parts), 4 * threads);
  // The anchors, the first and the last run may be short.
  run_count_ = static_cast<size_t>(limits.window) / (kPageSlots * kPagesPerRun) + 3;
  states_ = AlignedArray<float>(cut_block_count_ * static_cast<size_t>(arch.kv_heads) * run_count_ *
                                block_state_floats_);
  // The kernel's own scratch, then one run's states and their total.
  const auto attend = static_cast<size_t>(AttendScratchFloats(arch.head_dim, arch.group()));
  scratch_floats_ = (attend + 15) / 16 * 16 + (2 * block_state_floats_ + 15) / 16 * 16;
  scratch_ = AlignedArray<float>(threads * scratch_floats_);
  blocks_.reserve(rows);
}

size_t Workspace::bytes() const {
  return hidden_.bytes() + normed_.bytes() + projected_.bytes() + query_.bytes() + key_.bytes() +
         value_.bytes() + attended_.bytes() + gate_.bytes() + up_.bytes() + rounded_.bytes() +
         int8_.bytes() + int16_.bytes() + logits_.bytes() + states_.bytes() + scratch_.bytes();
}

}  // namespace mooring
