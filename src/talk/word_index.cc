#include "talk/word_index.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/random.h"

namespace mooring {
namespace {

constexpr size_t kLeastTable = 32;

// At most two thirds of the places are taken: probing stays short.
size_t TableSizeFor(size_t lists) { return std::bit_ceil(std::max(kLeastTable, lists * 3 / 2)); }

}  // namespace

WipedVector<TermCount> CountTerms(const TermTable& terms, std::span<const TokenId> tokens) {
  WipedVector<TermId> found;
  found.reserve(tokens.size());
  for (const TokenId token : tokens) {
    if (terms.term(token) != kNoTerm) found.push_back(terms.term(token));
  }
  std::ranges::sort(found);
  WipedVector<TermCount> counts;
  for (const TermId term : found) {
    if (counts.empty() || counts.back().term != term) counts.push_back({term, 0});
    ++counts.back().count;
  }
  return counts;
}

size_t WordIndex::PlaceOf(TermId term) const {
  const size_t mask = table_.size() - 1;
  size_t place = MixBits(term) & mask;
  while (table_[place] != kFree && lists_[table_[place]].term() != term) place = (place + 1) & mask;
  return place;
}

void WordIndex::FillTable(size_t size) {
  table_ = WipedVector<uint32_t>(size, kFree);
  for (size_t i = 0; i < lists_.size(); ++i) {
    table_[PlaceOf(lists_[i].term())] = static_cast<uint32_t>(i);
  }
}

void WordIndex::Reserve(size_t extra) {
  ReserveFor(&lists_, extra, kLeastLists);
  const size_t needed = TableSizeFor(lists_.size() + extra);
  if (needed > table_.size()) FillTable(needed);
}

PostingList* WordIndex::FindOrAdd(TermId term) {
  const size_t place = PlaceOf(term);
  if (table_[place] == kFree) {
    table_[place] = static_cast<uint32_t>(lists_.size());
    lists_.emplace_back(term);
  }
  return &lists_[table_[place]];
}

void WordIndex::Add(SpanId span, std::span<const TermCount> terms) {
  size_t new_lists = 0;
  for (const TermCount& term : terms) new_lists += Find(term.term) == nullptr ? 1 : 0;
  Reserve(new_lists);
  for (const TermCount& term : terms) FindOrAdd(term.term)->Append(span, term.count);
}

void WordIndex::AddList(PostingList list) {
  CHECK(list.size() > 0 && Find(list.term()) == nullptr);
  Reserve(1);
  PostingList* place = FindOrAdd(list.term());
  *place = std::move(list);
}

void WordIndex::Erase(SpanId first, SpanId last) {
  bool emptied = false;
  for (PostingList& list : lists_) {
    if (!list.HoldsAnyOf(first, last)) continue;
    list.Erase(first, last);
    emptied = emptied || list.size() == 0;
  }
  if (!emptied) return;
  WipedVector<PostingList> kept;
  kept.reserve(lists_.size());
  for (PostingList& list : lists_) {
    if (list.size() > 0) kept.push_back(std::move(list));
  }
  lists_ = std::move(kept);
  FillTable(TableSizeFor(lists_.size()));
}

const PostingList* WordIndex::Find(TermId term) const {
  if (table_.empty()) return nullptr;
  const uint32_t found = table_[PlaceOf(term)];
  return found == kFree ? nullptr : &lists_[found];
}

std::vector<const PostingList*> WordIndex::Lists() const {
  std::vector<const PostingList*> lists;
  lists.reserve(lists_.size());
  for (const PostingList& list : lists_) lists.push_back(&list);
  std::ranges::sort(lists, {}, [](const PostingList* list) { return list->term(); });
  return lists;
}

uint64_t WordIndex::bytes() const {
  uint64_t bytes = lists_.capacity() * sizeof(PostingList) + table_.capacity() * sizeof(uint32_t);
  for (const PostingList& list : lists_) bytes += list.heap_bytes();
  return bytes;
}

uint64_t WordIndex::GrowthBytes(std::span<const TermCount> terms) const {
  uint64_t bytes = 0;
  size_t new_lists = 0;
  for (const TermCount& term : terms) {
    const PostingList* list = Find(term.term);
    new_lists += list == nullptr ? 1 : 0;
    bytes +=
        list == nullptr ? PostingList::HeapBytes(PostingList::kLeastGrowth) : list->GrowthBytes();
  }
  const size_t lists = CapacityFor(lists_, new_lists, kLeastLists) - lists_.capacity();
  const size_t table =
      std::max(table_.capacity(), TableSizeFor(lists_.size() + new_lists)) - table_.capacity();
  return bytes + lists * sizeof(PostingList) + table * sizeof(uint32_t);
}

}  // namespace mooring
