#include "text/merge_table.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/random.h"

namespace mooring {
namespace {

constexpr uint32_t kNoSymbol = UINT32_MAX;

uint64_t PairKey(TokenId left, TokenId right) {
  return (uint64_t{static_cast<uint32_t>(left)} << 32U) | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(size_t merge_count) : slots_(std::bit_ceil(2 * merge_count + 2)) {}

size_t MergeTable::SlotOf(uint64_t pair) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = MixBits(pair) & mask;
  while (slots_[slot].pair != kFree && slots_[slot].pair != pair) slot = (slot + 1) & mask;
  return slot;
}

bool MergeTable::Add(TokenId left, TokenId right, Merge merge) {
  Slot& slot = slots_[SlotOf(PairKey(left, right))];
  if (slot.pair != kFree) return false;
  slot = {PairKey(left, right), merge};
  return true;
}

MergeTable::Merge MergeTable::Find(TokenId left, TokenId right) const {
  return slots_[SlotOf(PairKey(left, right))].merge;
}

void MergeTable::Apply(size_t first, std::vector<TokenId>* ids, Scratch* scratch) const {
  const auto count = static_cast<uint32_t>(ids->size() - first);
  if (count < 2) return;
  auto& symbols = scratch->symbols;
  auto& heap = scratch->heap;
  symbols.clear();
  heap.clear();
  for (uint32_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const TokenId id = (*ids)[first + i];
    const uint32_t rank = last ? kNoMerge : Find(id, (*ids)[first + i + 1]).rank;
    symbols.push_back({id, i == 0 ? kNoSymbol : i - 1, last ? kNoSymbol : i + 1, rank});
    if (rank != kNoMerge) heap.push_back((uint64_t{rank} << 32U) | i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());

  const auto rank_pair = [&](uint32_t at) {
    auto& symbol = symbols[at];
    symbol.rank =
        symbol.next == kNoSymbol ? kNoMerge : Find(symbol.id, symbols[symbol.next].id).rank;
    if (symbol.rank == kNoMerge) return;
    heap.push_back((uint64_t{symbol.rank} << 32U) | at);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const auto rank = static_cast<uint32_t>(heap.front() >> 32U);
    const auto at = static_cast<uint32_t>(heap.front());
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    // An entry whose pair has changed since is stale: the pair of now has its own entry.
    if (symbols[at].rank != rank) continue;
    const uint32_t gone = symbols[at].next;
    symbols[at].id = Find(symbols[at].id, symbols[gone].id).result;
    symbols[at].next = symbols[gone].next;
    symbols[gone].rank = kNoMerge;
    if (symbols[at].next != kNoSymbol) symbols[symbols[at].next].previous = at;
    rank_pair(at);
    if (symbols[at].previous != kNoSymbol) rank_pair(symbols[at].previous);
  }

  ids->resize(first);
  for (uint32_t at = 0; at != kNoSymbol; at = symbols[at].next) ids->push_back(symbols[at].id);
}

}  // namespace mooring
