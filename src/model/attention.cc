// Attention of a step: which thread attends to what, and in which order partial sums meet.
//
// Rows are cut into query blocks that are the rows of one page, whatever the chunk. A head's pages
// are cut into runs by ordinal (tensor/kv_view.h). Every run is summed on its own and runs merge in
// order, whether one thread does them all or several share them: the bits are the same.

#include <algorithm>

#include "model/forward_pass.h"

namespace mooring {
namespace {

// The end of the run that starts at page `begin`. REQUIRES: ordinals do not descend. Pages that
// were called back share one, so a run may have more than kPagesPerRun of them.
int64_t RunEnd(const AttendTask& task, int64_t begin) {
  const uint32_t run = task.pages[begin].ordinal / kPagesPerRun;
  int64_t end = begin + 1;
  while (end < task.page_count && task.pages[end].ordinal / kPagesPerRun == run) ++end;
  return end;
}

int RunCount(const AttendTask& task) {
  int count = 0;
  for (int64_t at = 0; at < task.page_count; at = RunEnd(task, at)) ++count;
  return count;
}

}  // namespace

void ForwardPass::ListBlocks() {
  space_.blocks_.clear();
  for (size_t p = 0; p < step_.parts.size(); ++p) {
    const StepPart& part = step_.parts[p];
    const int end = part.first_row + part.row_count;
    for (int row = part.first_row; row < end;) {
      const int page = step_.places[static_cast<size_t>(row)].pages_from_end;
      int next = row + 1;
      while (next < end && step_.places[static_cast<size_t>(next)].pages_from_end == page) ++next;
      space_.blocks_.push_back({static_cast<int>(p), row, next - row});
      row = next;
    }
  }
}

void ForwardPass::AppendKeysAndValues(int layer) {
  const int head_dim = arch_.head_dim;
  const int half = rotary_.half_dim();
  const bool split = arch_.layers[static_cast<size_t>(layer)].pair_order == PairOrder::kInterleaved;
  pool_.Run(static_cast<int64_t>(step_.parts.size()) * arch_.kv_heads, [&](int64_t item, int) {
    const StepPart& part = step_.parts[static_cast<size_t>(item / arch_.kv_heads)];
    const auto kv_head = static_cast<int>(item % arch_.kv_heads);
    const std::span<const PageRef> pages = part.memory.head(layer, kv_head).pages;
    float scratch[kMaxHeadDim];
    for (int row = part.first_row; row < part.first_row + part.row_count; ++row) {
      float* key = space_.key_.data() + row * arch_.kv_dim() + int64_t{kv_head} * head_dim;
      const float* value =
          space_.value_.data() + row * arch_.kv_dim() + int64_t{kv_head} * head_dim;
      if (split) {
        SplitPairs(key, scratch, half);
        std::copy_n(scratch, 2 * half, key);
        for (int g = 0; g < arch_.group(); ++g) {
          float* query = space_.query_.data() + row * arch_.query_dim() +
                         int64_t{kv_head * arch_.group() + g} * head_dim;
          SplitPairs(query, scratch, half);
          std::copy_n(scratch, 2 * half, query);
        }
      }
      const RowPlace& place = step_.places[static_cast<size_t>(row)];
      const PageRef& page = pages[pages.size() - static_cast<size_t>(place.pages_from_end)];
      kernels_.Append(part.memory.layout, &rotary_, place.slot, key, value, page.data);
    }
  });
}

AttendTask ForwardPass::TaskOf(size_t block_index, int layer, int kv_head) const {
  const QueryBlock& block = space_.blocks_[block_index];
  const KvView& memory = step_.parts[static_cast<size_t>(block.part)].memory;
  const std::span<const PageRef> pages = memory.head(layer, kv_head).pages;
  const RowPlace* places = step_.places.data() + block.first_row;
  return {.layout = memory.layout,
          .pages = pages.data(),
          // Later pages hold only tokens after these rows.
          .page_count = static_cast<int64_t>(pages.size()) - places[0].pages_from_end + 1,
          .rotary = &rotary_,
          .places = places,
          .row_count = block.row_count,
          .group = arch_.group(),
          .queries = space_.query_.data() + block.first_row * arch_.query_dim() +
                     int64_t{kv_head} * arch_.group() * arch_.head_dim,
          .query_stride = arch_.query_dim(),
          .scale = arch_.attention_scale};
}

float* ForwardPass::CutStates(size_t block, int kv_head, int run) {
  const size_t index =
      (block * static_cast<size_t>(arch_.kv_heads) + static_cast<size_t>(kv_head)) *
          space_.run_count_ +
      static_cast<size_t>(run);
  return space_.states_.data() + index * space_.block_state_floats_;
}

float* ForwardPass::Scratch(int thread) {
  return space_.scratch_.data() + static_cast<size_t>(thread) * space_.scratch_floats_;
}

void ForwardPass::Attend(int layer) {
  const size_t block_count = space_.blocks_.size();
  const auto heads = static_cast<size_t>(arch_.kv_heads);
  const auto pair_count = static_cast<int64_t>(block_count * heads);
  if (block_count > space_.cut_block_count_ || pair_count >= 8 * pool_.thread_count() ||
      pool_.thread_count() == 1) {
    pool_.Run(pair_count, [&](int64_t pair, int thread) {
      AttendWhole(static_cast<size_t>(pair) / heads, layer,
                  static_cast<int>(static_cast<size_t>(pair) % heads), thread);
    });
    return;
  }
  // Too few pairs to keep the threads busy: cut them by runs, then merge.
  int runs = 1;
  for (size_t block = 0; block < block_count; ++block) {
    runs = std::max(runs, RunCount(TaskOf(block, layer, 0)));
  }
  CHECK(static_cast<size_t>(runs) <= space_.run_count_);
  pool_.Run(pair_count * runs, [&](int64_t item, int thread) {
    const auto pair = static_cast<size_t>(item / runs);
    AttendOneRun(pair / heads, layer, static_cast<int>(pair % heads), static_cast<int>(item % runs),
                 thread);
  });
  pool_.Run(pair_count, [&](int64_t pair, int /*thread*/) {
    MergeRuns(static_cast<size_t>(pair) / heads, layer,
              static_cast<int>(static_cast<size_t>(pair) % heads));
  });
}

void ForwardPass::AttendWhole(size_t block, int layer, int kv_head, int thread) {
  const AttendTask task = TaskOf(block, layer, kv_head);
  float* total = Scratch(thread);
  float* run = total + space_.block_state_floats_;
  float* scratch = run + space_.block_state_floats_;
  for (int64_t begin = 0; begin < task.page_count;) {
    const int64_t end = RunEnd(task, begin);
    kernels_.AttendPages(task, begin, end, begin == 0 ? total : run, scratch);
    if (begin != 0) Merge(task, run, total);
    begin = end;
  }
  Finish(task, total, block, kv_head);
}

void ForwardPass::AttendOneRun(size_t block, int layer, int kv_head, int run, int thread) {
  const AttendTask task = TaskOf(block, layer, kv_head);
  int64_t begin = 0;
  for (int i = 0; i < run && begin < task.page_count; ++i) begin = RunEnd(task, begin);
  if (begin >= task.page_count) return;
  kernels_.AttendPages(task, begin, RunEnd(task, begin), CutStates(block, kv_head, run),
                       Scratch(thread));
}

void ForwardPass::MergeRuns(size_t block, int layer, int kv_head) {
  const AttendTask task = TaskOf(block, layer, kv_head);
  const int runs = RunCount(task);
  float* total = CutStates(block, kv_head, 0);
  for (int run = 1; run < runs; ++run) Merge(task, CutStates(block, kv_head, run), total);
  Finish(task, total, block, kv_head);
}

void ForwardPass::Merge(const AttendTask& task, const float* run, float* total) const {
  const int64_t floats = AttentionStateFloats(arch_.head_dim);
  for (int64_t i = 0; i < int64_t{task.row_count} * task.group; ++i) {
    kernels_.MergeAttention(run + i * floats, arch_.head_dim, total + i * floats);
  }
}

void ForwardPass::Finish(const AttendTask& task, const float* total, size_t block, int kv_head) {
  const int64_t floats = AttentionStateFloats(arch_.head_dim);
  for (int row = 0; row < task.row_count; ++row) {
    float* out = space_.attended_.data() +
                 (space_.blocks_[block].first_row + row) * arch_.query_dim() +
                 int64_t{kv_head} * task.group * arch_.head_dim;
    for (int g = 0; g < task.group; ++g) {
      kernels_.FinishAttention(total + (int64_t{row} * task.group + g) * floats, arch_.head_dim,
                               out + int64_t{g} * arch_.head_dim);
    }
  }
}

}  // namespace mooring
