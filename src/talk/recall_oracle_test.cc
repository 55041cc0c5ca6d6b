// The index against a naive one: strings, maps and doubles, nothing coded, everything looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "base/random.h"
#include "talk/recall.h"
#include "talk/test_words.h"

namespace mooring {
namespace {

constexpr int32_t kDim = 6;

const TestWords& Words() {
  static const TestWords* const kWords = [] {
    std::vector<std::string> words;
    for (char a = 'a'; a <= 'e'; ++a) {
      for (char b = 'k'; b <= 't'; ++b) words.push_back({a, b, 'o'});
    }
    return new TestWords(words);
  }();
  return *kWords;
}

// What a search may find a token by, in plain strings; empty for nothing.
std::string NaiveTerm(TokenId token) {
  std::string text(Words().tokenizer().PieceBytes(token));
  if (text == "<|end|>" || text == "<tool>") return "";
  if (text[0] == ' ') text.erase(0, 1);
  if (text.find_first_not_of(" \n\t\r\v\f") == std::string::npos) return "";
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

struct NaiveSpan {
  int64_t from = 0;
  std::map<std::string, int> words;
  std::optional<std::vector<double>> unit;
  bool forgotten = false;

  double length() const {
    double sum = 0;
    for (const auto& [word, count] : words) sum += count;
    return sum;
  }
};

struct NaiveHit {
  size_t span = 0;
  double cosine = 0, share = 0, bm25 = 0, score = 0;
  bool near = false;
};

// Rounded to the steps in which the index keeps a vector, then of unit length.
std::optional<std::vector<double>> NaiveUnit(const std::vector<float>& vector) {
  double largest = 0;
  for (const float x : vector) largest = std::max(largest, std::abs(double{x}));
  if (largest == 0) return std::nullopt;
  std::vector<double> unit;
  double square = 0;
  for (const float x : vector) {
    unit.push_back(std::round(127 / largest * x));
    square += unit.back() * unit.back();
  }
  for (double& x : unit) x /= std::sqrt(square);
  return unit;
}

double NaiveCosine(const std::optional<std::vector<double>>& a,
                   const std::optional<std::vector<double>>& b) {
  if (!a || !b) return 0;
  double sum = 0;
  for (size_t i = 0; i < a->size(); ++i) sum += (*a)[i] * (*b)[i];
  return sum;
}

void AddStandardised(const std::vector<double>& values, std::vector<NaiveHit>* hits) {
  double mean = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  double variance = 0;
  for (const double value : values) {
    variance += (value - mean) * (value - mean) / static_cast<double>(values.size());
  }
  if (variance <= 1e-18) return;
  for (size_t i = 0; i < values.size(); ++i) {
    (*hits)[i].score += (values[i] - mean) / std::sqrt(variance);
  }
}

class NaiveRecall {
 public:
  std::vector<NaiveSpan> spans;

  std::vector<NaiveHit> Search(const std::vector<TokenId>& tokens, const std::vector<float>& vector,
                               int64_t window_from) const {
    std::vector<NaiveHit> all = Weigh(tokens, NaiveUnit(vector));
    if (all.empty()) return {};
    const bool meaning = NaiveUnit(vector).has_value();
    std::vector<double> scores;
    for (const NaiveHit& hit : all) scores.push_back(hit.score);
    std::sort(scores.begin(), scores.end());
    const size_t n = scores.size();
    const double median = (scores[n / 2] + scores[(n - 1) / 2]) / 2;
    std::vector<NaiveHit> hits;
    for (const NaiveHit& hit : all) {
      if (hit.score - median >= 0.7 * (scores.back() - median)) hits.push_back(hit);
    }
    std::stable_sort(hits.begin(), hits.end(), [](const NaiveHit& a, const NaiveHit& b) {
      return a.score > b.score || (a.score == b.score && a.span > b.span);
    });
    if (hits.size() > 4) hits.resize(4);
    const NaiveHit best = hits[0];
    if ((!meaning || best.cosine < 0.25) && best.share < 0.3) return {};
    const auto near = [&](const NaiveHit& hit) {
      return (meaning && hit.cosine >= 0.3) || hit.share >= 0.5;
    };
    NaiveHit newest = best;
    std::vector<NaiveHit> result;
    for (size_t i = hits.size(); i-- > 0;) {
      const bool like =
          i == 0 || NaiveCosine(spans[hits[i].span].unit, spans[best.span].unit) >= 0.6;
      if (like && hits[i].span > newest.span) newest = hits[i];
      if (like) continue;
      hits[i].near = near(hits[i]);
      if (spans[hits[i].span].from < window_from) result.push_back(hits[i]);
    }
    newest.near = near(best) || near(newest);
    if (spans[newest.span].from < window_from) result.push_back(newest);
    return result;
  }

 private:
  std::vector<NaiveHit> Weigh(const std::vector<TokenId>& tokens,
                              const std::optional<std::vector<double>>& unit) const {
    std::set<std::string> asked;
    for (const TokenId token : tokens) asked.insert(NaiveTerm(token));
    asked.erase("");
    double live = 0;
    double mean_length = 0;
    for (const NaiveSpan& span : spans) {
      live += span.forgotten ? 0 : 1;
      mean_length += span.length();
    }
    mean_length /= std::max(1.0, live);
    std::map<std::string, double> weight;
    double total = 0;
    for (const std::string& word : asked) {
      double holding = 0;
      for (const NaiveSpan& span : spans) holding += span.words.contains(word) ? 1 : 0;
      if (holding > 8 && holding > 0.2 * live) continue;
      weight[word] = std::log(1 + (live - holding + 0.5) / (holding + 0.5));
      total += weight[word];
    }
    std::vector<NaiveHit> all;
    for (size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].forgotten) continue;
      NaiveHit hit = {.span = i, .cosine = NaiveCosine(unit, spans[i].unit)};
      for (const auto& [word, idf] : weight) {
        const auto held = spans[i].words.find(word);
        if (held == spans[i].words.end()) continue;
        hit.share += idf / total;
        hit.bm25 += idf * held->second /
                    (held->second + 1.2 * (0.25 + 0.75 * spans[i].length() / mean_length));
      }
      all.push_back(hit);
    }
    std::vector<double> cosines;
    std::vector<double> bm25s;
    double best_share = 0;
    for (const NaiveHit& hit : all) {
      cosines.push_back(hit.cosine);
      bm25s.push_back(hit.bm25);
      best_share = std::max(best_share, hit.share);
    }
    AddStandardised(cosines, &all);
    // A share of a half in any order of the sum.
    if (!unit || best_share >= 0.5 - 1e-9) AddStandardised(bm25s, &all);
    // Scores that differ by the order of a sum alone are equal.
    for (NaiveHit& hit : all) hit.score = std::round(hit.score * 1048576) / 1048576;
    return all;
  }
};

struct Pair {
  Recall index{&Words().terms(), {.vector_dim = kDim}};
  NaiveRecall naive;
};

class Random {
 public:
  explicit Random(uint64_t seed) : seed_(seed) {}
  uint64_t Below(uint64_t limit) { return RandomBits(seed_, 1, next_++) % limit; }
  // Words of a few topics, at times a mark, a space or a lone byte.
  std::vector<TokenId> Tokens(uint64_t most) {
    std::vector<TokenId> tokens;
    const uint64_t topic = Below(5);
    for (uint64_t i = Below(most + 1); i > 0; --i) {
      const auto vocabulary = static_cast<uint64_t>(Words().tokenizer().vocab_size());
      const uint64_t kind = Below(10);
      uint64_t token = 256 + topic * 40 + Below(40);
      if (kind == 0) token = Below(vocabulary);
      if (kind == 1) token = vocabulary - 1 - Below(2);
      tokens.push_back(static_cast<TokenId>(token));
    }
    return tokens;
  }
  // Near one of a few directions, or none.
  std::vector<float> Vector() {
    if (Below(6) == 0) return {};
    std::vector<float> vector(kDim);
    const uint64_t topic = Below(5);
    for (size_t i = 0; i < vector.size(); ++i) {
      const auto spread = static_cast<float>(Below(1000)) / 1000 - 0.5F;
      vector[i] = (i == topic ? 1.0F : 0.0F) + spread;
    }
    return vector;
  }

 private:
  uint64_t seed_;
  uint64_t next_ = 0;
};

void Add(Pair* pair, Random* random) {
  NaiveSpan span;
  const std::vector<TokenId> tokens = random->Tokens(30);
  const std::vector<float> vector = random->Vector();
  for (const TokenId token : tokens) {
    if (!NaiveTerm(token).empty()) ++span.words[NaiveTerm(token)];
  }
  span.unit = NaiveUnit(vector);
  const SpanId count = pair->index.span_count();
  LogIndex from = count == 0 ? LogIndex{3} : pair->index.range(count - 1).to;
  from = from + static_cast<int64_t>(random->Below(4));
  span.from = from.value;
  ASSERT_EQ(*pair->index.Add({from, from + 40}, tokens, vector), count);
  pair->naive.spans.push_back(span);
}

void Change(Pair* pair, Random* random) {
  const size_t count = pair->naive.spans.size();
  const uint64_t kind = random->Below(20);
  if (kind < 15 || count == 0) {
    Add(pair, random);
  } else if (kind < 17) {
    const size_t span = random->Below(count);
    pair->index.Forget(static_cast<SpanId>(span));
    pair->naive.spans[span].forgotten = true;
    pair->naive.spans[span].words.clear();
    pair->naive.spans[span].unit.reset();
  } else if (kind == 17) {
    const size_t first = count - random->Below(std::min<size_t>(count, 6) + 1);
    pair->index.Rewind(static_cast<SpanId>(first));
    pair->naive.spans.resize(first);
  } else {
    std::string bytes;
    pair->index.AppendTo(&bytes);
    auto read = Recall::Parse(&Words().terms(), {.vector_dim = kDim}, bytes, "");
    ASSERT_TRUE(read.ok()) << read.error().Message();
    pair->index = std::move(*read);
  }
}

// Returns how many hits there were.
size_t Compare(const Pair& pair, Random* random) {
  const std::vector<TokenId> tokens = random->Tokens(6);
  const std::vector<float> vector = random->Vector();
  int64_t window_from = INT64_MAX;
  if (random->Below(3) == 0 && !pair.naive.spans.empty()) {
    window_from = pair.naive.spans[random->Below(pair.naive.spans.size())].from;
  }
  const auto expected = pair.naive.Search(tokens, vector, window_from);
  const auto found = pair.index.Search({tokens, vector, {window_from}});
  EXPECT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i) {
    EXPECT_EQ(found[i].span, expected[i].span);
    EXPECT_EQ(found[i].landing == Landing::kBeforeMessage, expected[i].near);
    EXPECT_NEAR(found[i].cosine, expected[i].cosine, 1e-9);
    EXPECT_NEAR(found[i].share, expected[i].share, 1e-9);
    EXPECT_NEAR(found[i].bm25, expected[i].bm25, 1e-9);
    EXPECT_NEAR(found[i].score, expected[i].score, 1e-5);
  }
  return found.size();
}

TEST(RecallOracleTest, EqualsTheNaiveIndex) {
  size_t hits = 0;
  size_t searches = 0;
  for (uint64_t seed = 0; seed < 12; ++seed) {
    Random random(seed);
    std::vector<Pair> talks(1);
    for (int step = 0; step < 150; ++step) {
      Pair* pair = &talks[random.Below(talks.size())];
      Change(pair, &random);
      if (HasFatalFailure()) return;
      hits += Compare(*pair, &random);
      ++searches;
      ASSERT_FALSE(HasFailure()) << "seed " << seed << ", step " << step;
      if (step % 50 == 20) {
        Pair fork = *pair;
        talks.push_back(std::move(fork));
      }
    }
  }
  EXPECT_GT(hits, searches / 2);
}

}  // namespace
}  // namespace mooring
