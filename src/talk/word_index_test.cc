#include "talk/word_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <utility>

#include "base/random.h"
#include "talk/test_words.h"

namespace mooring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

using Pairs = std::vector<std::pair<SpanId, uint32_t>>;

Pairs PairsOf(const PostingList& list) {
  Pairs pairs;
  list.ForEach([&](SpanId span, uint32_t count) { pairs.emplace_back(span, count); });
  return pairs;
}

TEST(PostingListTest, KeepsPairsOfEverySize) {
  PostingList list(7);
  Pairs pairs;
  SpanId span = 0;
  for (int i = 0; i < 200; ++i) {
    const uint32_t count = i % 3 == 0 ? 1 : 1 + (uint32_t{1} << (i % 20));
    list.Append(span, count);
    pairs.emplace_back(span, count);
    span += 1 + (i % 2 == 0 ? 0 : uint32_t{1} << (i % 22));
  }
  EXPECT_EQ(PairsOf(list), pairs);
  EXPECT_EQ(list.end(), pairs.back().first + 1);
  EXPECT_EQ(list.term(), 7U);
}

TEST(PostingListTest, ErasesFromAnyPlace) {
  PostingList list(1);
  for (const SpanId span : {2, 3, 5, 900, 901}) list.Append(span, span);
  EXPECT_TRUE(list.HoldsAnyOf(4, 6));
  EXPECT_FALSE(list.HoldsAnyOf(6, 900));
  EXPECT_FALSE(list.HoldsAnyOf(902, 2000));
  list.Erase(5, 6);
  EXPECT_THAT(PairsOf(list), ElementsAre(Pair(2, 2), Pair(3, 3), Pair(900, 900), Pair(901, 901)));
  list.Erase(0, 3);
  list.Erase(901, 902);
  EXPECT_THAT(PairsOf(list), ElementsAre(Pair(3, 3), Pair(900, 900)));
  EXPECT_EQ(list.end(), 901U);
  list.Append(901, 4);
  EXPECT_THAT(PairsOf(list), ElementsAre(Pair(3, 3), Pair(900, 900), Pair(901, 4)));
}

TEST(PostingListTest, KeepsTheNewestAndKnowsSinceWhen) {
  PostingList list(1);
  for (SpanId i = 0; i < PostingList::kMaxPostings; ++i) list.Append(2 * i, 1 + i % 3);
  EXPECT_EQ(list.complete_from(), 0U);
  const SpanId last = 2 * PostingList::kMaxPostings + 5;
  list.Append(last - 1, 9);
  EXPECT_EQ(list.size(), PostingList::kMaxPostings);
  EXPECT_EQ(list.complete_from(), 1U);
  list.Append(last, 9);
  EXPECT_EQ(list.complete_from(), 3U);
  const Pairs pairs = PairsOf(list);
  EXPECT_THAT(pairs.front(), Pair(4, 3));
  EXPECT_THAT(pairs.back(), Pair(last, 9));
  // 4,096 of the spans from 3 on: as common before.
  EXPECT_DOUBLE_EQ(list.SpanFrequency(last + 1), 4096.0 * (last + 1) / (last + 1 - 3));
}

// Against a map of maps, over many adds, erasures and copies.
TEST(WordIndexTest, EqualsMaps) {
  std::map<TermId, std::map<SpanId, uint32_t>> expected;
  WordIndex index;
  SpanId next = 0;
  for (uint64_t step = 0; step < 400; ++step) {
    const auto draw = [step](uint64_t stream, uint64_t below) {
      return static_cast<uint32_t>(RandomBits(1, stream, step) % below);
    };
    if (draw(0, 10) < 8 || next == 0) {
      std::map<TermId, uint32_t> counts;
      for (uint64_t i = 0; i < draw(1, 30); ++i) ++counts[draw(100 + i, 1 + draw(2, 500))];
      std::vector<TermCount> terms;
      for (const auto& [term, count] : counts) {
        terms.push_back({term, count});
        expected[term][next] = count;
      }
      const uint64_t before = index.bytes();
      const uint64_t growth = index.GrowthBytes(terms);
      index.Add(next++, terms);
      ASSERT_LE(index.bytes(), before + growth);
    } else {
      const bool rewind = draw(3, 4) == 0;
      const SpanId first = rewind ? next - std::min(next, draw(4, 4)) : draw(5, next);
      const SpanId last = rewind ? next : first + 1;
      index.Erase(first, last);
      for (auto& [term, spans] : expected) {
        std::erase_if(spans, [&](const auto& of) { return of.first >= first && of.first < last; });
      }
      std::erase_if(expected, [](const auto& of) { return of.second.empty(); });
      if (rewind) next = first;
    }
    if (draw(6, 20) == 0) index = WordIndex(index);
    std::map<TermId, std::map<SpanId, uint32_t>> found;
    for (const PostingList* list : index.Lists()) {
      for (const auto& [span, count] : PairsOf(*list)) found[list->term()][span] = count;
      ASSERT_EQ(index.Find(list->term()), list);
    }
    ASSERT_EQ(found, expected) << step;
    ASSERT_EQ(index.Find(1000), nullptr);
  }
}

TEST(WordIndexTest, CountsTerms) {
  const TestWords words({"gate", "code"});
  const std::vector<TokenId> tokens = {words.Id("Gate"), words.Id(" code"), words.Id(" gate"),
                                       words.Id("\n"), words.Id("<|end|>")};
  const auto counts = CountTerms(words.terms(), tokens);
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_EQ(counts[0].term, words.terms().term(words.Id("gate")));
  EXPECT_EQ(counts[0].count, 2U);
  EXPECT_EQ(counts[1].count, 1U);
  EXPECT_THAT(CountTerms(words.terms(), {}), IsEmpty());
}

TEST(WipedVectorTest, WipesWhatItCutsOff) {
  WipedVector<uint8_t> items(64, 7);
  const uint8_t* bytes = items.data();
  ShrinkWiped(&items, 10);
  EXPECT_EQ(items.size(), 10U);
  // The rest is still the vector's memory, and holds nothing.
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(bytes[i], i < 10 ? 7 : 0) << i;
  EXPECT_EQ(CapacityFor(items, 54, 16), 64U);
  EXPECT_EQ(CapacityFor(items, 55, 16), 65U);
  EXPECT_EQ(CapacityFor(items, 55, 100), 110U);
}

}  // namespace
}  // namespace mooring
