// Terms -> the spans that hold them: one posting list per term that is in use.
//
// Nothing here names a term that no span holds any more: a list that is emptied goes.
//
// Thread rule: as a value; several threads may read at a time.
#ifndef MOORING_TALK_WORD_INDEX_H_
#define MOORING_TALK_WORD_INDEX_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"
#include "talk/posting_list.h"
#include "talk/term_table.h"
#include "talk/wiped_vector.h"

namespace mooring {

struct TermCount {
  TermId term;
  uint32_t count;
};

// The terms of `tokens`, ascending, each with how often it comes.
WipedVector<TermCount> CountTerms(const TermTable& terms, std::span<const TokenId> tokens);

class WordIndex {
 public:
  // REQUIRES: `span` is newer than all that was added; each term once.
  void Add(SpanId span, std::span<const TermCount> terms);
  // Takes over a list of a term that has none yet. REQUIRES: not empty.
  void AddList(PostingList list);
  // Erases the spans from `first` to before `last`.
  void Erase(SpanId first, SpanId last);

  // Null when no span holds the term. Valid until the index changes.
  const PostingList* Find(TermId term) const;
  // All lists, by ascending term. Valid until the index changes.
  std::vector<const PostingList*> Lists() const;

  // All that the index holds on the heap.
  uint64_t bytes() const;
  // By how much bytes() grows at most when these terms are added.
  uint64_t GrowthBytes(std::span<const TermCount> terms) const;

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  static constexpr size_t kLeastLists = 16;

  // Where in table_ the term stands, or would. REQUIRES: a table.
  size_t PlaceOf(TermId term) const;
  PostingList* FindOrAdd(TermId term);
  // Makes room for `extra` more lists.
  void Reserve(size_t extra);
  void FillTable(size_t size);

  WipedVector<PostingList> lists_;  // in no order that matters
  // [a power of two, or none] indices into lists_ by hash of the term, linear probing.
  WipedVector<uint32_t> table_;
};

}  // namespace mooring

#endif  // MOORING_TALK_WORD_INDEX_H_
