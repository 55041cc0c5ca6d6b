// Ranked merges: which pairs of tokens join, in which order, into what; and the algorithm that
// applies them.
//
// Merging takes O(n log n) time for n symbols whatever they are, with a heap and a linked list and
// no recursion.
//
// Thread rule: a table is const once built; a scratch belongs to one call.
#ifndef MOORING_TEXT_MERGE_TABLE_H_
#define MOORING_TEXT_MERGE_TABLE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"

namespace mooring {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNoMerge;  // lower joins first
    TokenId result = -1;
  };
  static constexpr uint32_t kNoMerge = UINT32_MAX;

  // Buffers that one text's pieces share, so that short pieces cost no allocation.
  struct Scratch {
    struct Symbol {
      TokenId id;
      uint32_t previous;  // indices into `symbols`; kNoSymbol at the ends
      uint32_t next;
      uint32_t rank;  // of the pair that starts here; kNoMerge when it does not join
    };
    std::vector<Symbol> symbols;
    std::vector<uint64_t> heap;  // rank, then position: the leftmost of equals joins first
  };

  explicit MergeTable(size_t merge_count);

  // Returns false when the pair is there already. REQUIRES: fewer than `merge_count` calls before.
  bool Add(TokenId left, TokenId right, Merge merge);
  Merge Find(TokenId left, TokenId right) const;

  // Merges the ids that `ids` holds from `first` on. REQUIRES: at most 2^31 of them.
  void Apply(size_t first, std::vector<TokenId>* ids, Scratch* scratch) const;

 private:
  struct Slot {
    uint64_t pair = kFree;
    Merge merge;
  };
  static constexpr uint64_t kFree = UINT64_MAX;

  size_t SlotOf(uint64_t pair) const;

  std::vector<Slot> slots_;  // open addressing; the size is a power of two, at most half full
};

}  // namespace mooring

#endif  // MOORING_TEXT_MERGE_TABLE_H_
