#include "talk/recall.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "talk/test_words.h"

namespace mooring {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const TestWords& Words() {
  static const TestWords* const kWords = new TestWords(
      {"my",   "gate", "code", "is",    "what",  "the",  "red",  "blue", "cat",  "dog",
       "tree", "sun",  "moon", "river", "stone", "bird", "fish", "tea",  "milk", "bread"});
  return *kWords;
}

RecallSettings WordsOnly() { return {.vector_dim = 0}; }
RecallSettings WithVectors() { return {.vector_dim = 4}; }

// Builds an index span by span, of 20 tokens of the log each.
class Talk {
 public:
  explicit Talk(const RecallSettings& settings) : index(&Words().terms(), settings) {}

  SpanId Add(std::string_view text, const std::vector<float>& vector = {}) {
    const LogIndex from = {20 * int64_t{index.span_count()}};
    const auto added = index.Add({from, from + 20}, Words().Say(text), vector);
    CHECK(added.ok(), "{}", added.error().Message());
    return *added;
  }
  std::vector<RecallHit> Ask(std::string_view text, const std::vector<float>& vector = {},
                             SpanId window_from = kMaxSpans) const {
    const std::vector<TokenId> tokens = Words().Say(text);
    return index.Search({tokens, vector, {20 * int64_t{window_from}}});
  }
  std::vector<SpanId> Found(std::string_view text, const std::vector<float>& vector = {},
                            SpanId window_from = kMaxSpans) const {
    std::vector<SpanId> spans;
    for (const RecallHit& hit : Ask(text, vector, window_from)) spans.push_back(hit.span);
    return spans;
  }
  std::string Bytes() const {
    std::string bytes;
    index.AppendTo(&bytes);
    return bytes;
  }

  Recall index;
};

constexpr const char* kChat[] = {" sun moon", " red tea",    " blue milk", " bird fish",
                                 " cat dog",  " tree stone", " river sun", " bread milk"};

Talk ChatWith(std::string_view fact) {
  Talk talk(WordsOnly());
  for (const char* text : kChat) talk.Add(text);
  talk.Add(fact);
  for (const char* text : kChat) talk.Add(text);
  return talk;
}

TEST(RecallTest, FindsTheSameWordInOtherCase) {
  const Talk talk = ChatWith(" My Gate Code is red");
  EXPECT_THAT(talk.Found(" what is my gate code"), ElementsAre(8));
  EXPECT_THAT(talk.Found("Gate"), ElementsAre(8));
  const RecallHit hit = talk.Ask("gate Code").front();
  EXPECT_EQ(hit.range, (LogRange{{160}, {180}}));
  EXPECT_DOUBLE_EQ(hit.share, 1);
  EXPECT_EQ(hit.cosine, 0);
  EXPECT_EQ(hit.landing, Landing::kBeforeMessage);
  // Two terms of the one span that holds them, as many words as the mean has, within a rounding.
  const double idf = std::log((17 - 1 + 0.5) / (1 + 0.5) + 1);
  const double length = 5 / (37.0 / 17);
  EXPECT_NEAR(hit.bm25, 2 * idf / (1 + 1.2 * (1 - 0.75 + 0.75 * length)), 1e-12);
}

TEST(RecallTest, RecallsNothingWithoutEvidence) {
  EXPECT_THAT(Talk(WordsOnly()).Found(" gate"), IsEmpty());
  const Talk talk = ChatWith(" my gate code");
  EXPECT_THAT(talk.Found(" bread the"), ElementsAre(7, 16));  // ties: the newer is better
  EXPECT_THAT(talk.Found(" what the"), IsEmpty());
  EXPECT_THAT(talk.Found(""), IsEmpty());
  // One known word of four unknown ones: too small a share. The unknown weigh most.
  EXPECT_THAT(talk.Found(" gate the what is"), IsEmpty());
}

TEST(RecallTest, OneSpan) {
  Talk talk(WordsOnly());
  talk.Add(" my gate code");
  EXPECT_THAT(talk.Found(" gate"), ElementsAre(0));
  EXPECT_THAT(talk.Found(" dog"), IsEmpty());
  const RecallHit hit = talk.Ask(" gate").front();
  EXPECT_EQ(hit.score, 0);
  EXPECT_DOUBLE_EQ(hit.share, 1);
  talk.index.Forget(0);
  EXPECT_THAT(talk.Found(" gate"), IsEmpty());
  EXPECT_EQ(talk.index.range(0), (LogRange{{0}, {20}}));
}

TEST(RecallTest, EqualScoresGiveTheNewest) {
  Talk talk(WordsOnly());
  for (int i = 0; i < 6; ++i) talk.Add(" red tea");
  const std::vector<RecallHit> hits = talk.Ask(" red");
  ASSERT_EQ(hits.size(), Recall::kMaxHits);
  for (size_t i = 0; i < hits.size(); ++i) {
    EXPECT_EQ(hits[i].span, 2 + i);
    EXPECT_EQ(hits[i].score, 0);
  }
}

// In a short talk a word of most spans still finds; in a longer one it is passed over.
TEST(RecallTest, PassesOverCommonWords) {
  Talk talk(WordsOnly());
  for (int i = 0; i < 8; ++i) talk.Add(" the sun");
  EXPECT_FALSE(talk.Found(" the").empty());
  for (int i = 0; i < 27; ++i) talk.Add(" tea");
  talk.Add(" the moon");  // 9 of 36 spans: more than 8, and more than a fifth
  EXPECT_THAT(talk.Found(" the"), IsEmpty());
  EXPECT_THAT(talk.Found(" the moon"), ElementsAre(35));
  for (int i = 0; i < 9; ++i) talk.Add(" bird");  // 9 of 45: a fifth
  EXPECT_FALSE(talk.Found(" the").empty());
}

const std::vector<float> kNorth = {1, 0, 0, 0};
const std::vector<float> kEast = {0, 1, 0, 0};
const std::vector<float> kUp = {0, 0, 1, 0};

std::vector<float> Between(const std::vector<float>& a, const std::vector<float>& b, float part) {
  std::vector<float> mixed(a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    mixed[i] = a[i] * std::sqrt(1 - part * part) + b[i] * part;
  }
  return mixed;
}

TEST(RecallTest, FindsByMeaningWithoutAWord) {
  Talk talk(WithVectors());
  for (const char* text : kChat) talk.Add(text, kUp);
  talk.Add(" dog", kNorth);
  talk.Add(" sun", kUp);
  const std::vector<RecallHit> hits = talk.Ask(" what is my", Between(kNorth, kEast, 0.5F));
  ASSERT_EQ(hits.size(), 1U);
  EXPECT_EQ(hits[0].span, 8U);
  EXPECT_NEAR(hits[0].cosine, std::sqrt(0.75), 0.01);
  EXPECT_EQ(hits[0].share, 0);
  EXPECT_EQ(hits[0].landing, Landing::kBeforeMessage);
}

// Cosines below the gates: behind the anchors, then nothing at all.
TEST(RecallTest, GatesByCosine) {
  Talk talk(WithVectors());
  for (const char* text : kChat) talk.Add(text, kUp);
  talk.Add(" dog", kNorth);
  const auto ask = [&](float cosine) { return talk.Ask(" what", Between(kEast, kNorth, cosine)); };
  ASSERT_EQ(ask(0.32F).size(), 1U);
  EXPECT_EQ(ask(0.32F)[0].landing, Landing::kBeforeMessage);
  ASSERT_EQ(ask(0.28F).size(), 1U);
  EXPECT_EQ(ask(0.28F)[0].landing, Landing::kBehindAnchors);
  EXPECT_THAT(ask(0.2F), IsEmpty());
}

TEST(RecallTest, WordsCountBesideMeaningOnlyWhenTheyHoldMuch) {
  Talk talk(WithVectors());
  for (const char* text : kChat) talk.Add(text, kUp);
  const SpanId meant = talk.Add(" dog", Between(kNorth, kEast, 0.8F));
  const SpanId said = talk.Add(" gate code", Between(kNorth, kUp, 0.95F));
  EXPECT_THAT(talk.Found(" gate my what the", kNorth), ElementsAre(meant));
  EXPECT_THAT(talk.Found(" gate code", kNorth), ElementsAre(said));
}

TEST(RecallTest, NewestOfLike) {
  Talk talk(WithVectors());
  talk.Add(" gate code red", kNorth);
  for (const char* text : kChat) talk.Add(text, kUp);
  talk.Add(" gate code blue", Between(kNorth, kEast, 0.6F));  // cosine 0.8 with the first
  for (const char* text : kChat) talk.Add(text, kUp);
  EXPECT_THAT(talk.Found(" what is my gate code", kNorth), ElementsAre(9));
  // The newest stands in the window: the old value must not come either.
  EXPECT_THAT(talk.Found(" what is my gate code", kNorth, 10), ElementsAre(9));
  EXPECT_THAT(talk.Found(" what is my gate code", kNorth, 9), IsEmpty());
  EXPECT_THAT(talk.Found(" what is my gate code", kNorth, 0), IsEmpty());
}

// Without a vector of the message the spans' own still tell what is like what.
TEST(RecallTest, NewestOfLikeByWordsAlone) {
  Talk talk(WithVectors());
  talk.Add(" gate code red", kNorth);
  for (const char* text : kChat) talk.Add(text, kUp);
  talk.Add(" gate code blue", kNorth);
  EXPECT_THAT(talk.Found(" gate code"), ElementsAre(9));
}

// The newest of the like group has the best one's place, behind a hit of another kind.
TEST(RecallTest, OrdersFromWorstToBest) {
  Talk talk(WithVectors());
  // All three are near the question, and only the two values near to each other.
  const SpanId old_value = talk.Add(" dog", Between(kNorth, kEast, 0.5F));
  for (const char* text : kChat) talk.Add(text, kUp);
  const SpanId other = talk.Add(" cat", std::vector<float>{0.1F, 0.95F, 0, 0.296F});
  const SpanId new_value = talk.Add(" tree", std::vector<float>{0.7F, 0.3F, 0, 0.648F});
  const std::vector<float> asked = Between(kNorth, kEast, std::sqrt(0.5F));
  EXPECT_THAT(talk.Found(" what", asked), ElementsAre(other, new_value));
  const std::vector<RecallHit> hits = talk.Ask(" what", asked);
  EXPECT_GT(hits[0].score, hits[1].score);
  talk.index.Forget(new_value);
  EXPECT_THAT(talk.Found(" what", asked), ElementsAre(other, old_value));
}

TEST(RecallTest, NumbersAreNumbers) {
  Talk talk(WithVectors());
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<std::vector<float>> vectors = {
      {}, {nan, 0, 0, 0}, {0, 0, 0, 0}, {1e30F, -1e30F, 0, 0}, {1e-45F, 0, 0, 0}};
  const auto check = [&] {
    for (const auto& vector : vectors) {
      for (const RecallHit& hit : talk.Ask(" gate code", vector)) {
        EXPECT_TRUE(std::isfinite(hit.cosine) && std::isfinite(hit.share));
        EXPECT_TRUE(std::isfinite(hit.bm25) && std::isfinite(hit.score));
      }
    }
  };
  for (const auto& vector : vectors) {
    talk.Add("", vector);
    check();
    talk.Add(" gate code", vector);
    check();
  }
  EXPECT_THAT(talk.Found(" gate code", {nan, 0, 0, 0}), testing::Contains(9));
}

// What was forgotten is in no byte: the index equals one in which the span never said anything.
TEST(RecallTest, ForgetsWithoutATrace) {
  Talk talk(WithVectors());
  Talk never(WithVectors());
  for (const char* text : kChat) {
    talk.Add(text, kUp);
    never.Add(text, kUp);
  }
  const SpanId secret = talk.Add(" gate code sun", kNorth);
  ASSERT_EQ(never.Add("", {}), secret);
  talk.Add(" sun river", kEast);
  never.Add(" sun river", kEast);
  EXPECT_FALSE(talk.Found(" gate code", kNorth).empty());
  talk.index.Forget(secret);
  never.index.Forget(secret);
  EXPECT_EQ(talk.Bytes(), never.Bytes());
  EXPECT_TRUE(talk.index.forgotten(secret));
  EXPECT_THAT(talk.Found(" gate code"), IsEmpty());
  EXPECT_THAT(talk.Found(" what", kNorth), IsEmpty());
  talk.index.Forget(secret);  // once more changes nothing
  EXPECT_EQ(talk.Bytes(), never.Bytes());
}

TEST(RecallTest, TakesBackAndForks) {
  Talk talk(WithVectors());
  for (const char* text : kChat) talk.Add(text, kUp);
  const std::string before = talk.Bytes();
  Talk fork = talk;
  talk.Add(" gate code", kNorth);
  talk.Add(" sun moon", kEast);
  EXPECT_EQ(fork.Bytes(), before);
  EXPECT_THAT(fork.Found(" gate code"), IsEmpty());
  talk.index.Rewind(8);
  EXPECT_EQ(talk.Bytes(), before);
  EXPECT_EQ(talk.index.span_count(), 8U);
  EXPECT_THAT(talk.Found(" gate code", kNorth), IsEmpty());
  EXPECT_EQ(talk.Add(" gate code", kNorth), 8U);
  talk.index.Rewind(0);
  EXPECT_EQ(talk.Bytes(), Talk(WithVectors()).Bytes());
}

TEST(RecallTest, StaysWithinItsBytes) {
  RecallSettings settings = WithVectors();
  settings.max_bytes = 20000;
  Recall index(&Words().terms(), settings);
  bool full = false;
  for (uint64_t i = 0; i < 4000 && !full; ++i) {
    std::vector<TokenId> tokens;
    for (uint64_t j = 0; j < 12; ++j) {
      tokens.push_back(static_cast<TokenId>(RandomBits(3, i, j) % 330));
    }
    const LogIndex from = {12 * static_cast<int64_t>(i)};
    std::string before;
    index.AppendTo(&before);
    const auto added = index.Add({from, from + 12}, tokens, kUp);
    ASSERT_LE(index.bytes(), settings.max_bytes);
    if (added.ok()) continue;
    full = true;
    EXPECT_EQ(added.error().kind, ErrorKind::kResources);
    EXPECT_THAT(added.error().Message(), HasSubstr("20000"));
    std::string after;
    index.AppendTo(&after);
    EXPECT_EQ(after, before);
  }
  EXPECT_TRUE(full);
  EXPECT_GT(index.bytes(), settings.max_bytes * 3 / 4);
}

}  // namespace
}  // namespace mooring
