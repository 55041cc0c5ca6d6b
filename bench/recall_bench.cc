// How long a search of the index of a conversation takes, and how much memory the index, by the
// number of spans; 15,000 spans are a million tokens. The words are drawn as words come in a
// language: the n-th most common of 20,000 with a probability of about 1 / n.
//
//   recall_bench --benchmark_filter=Search
#include <benchmark/benchmark.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "talk/recall.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace mooring {
namespace {

constexpr int64_t kSpanTokens = 67;
constexpr uint64_t kVocabulary = 20000;

// Tokens 0 to kVocabulary - 1, each a word of its own in small letters.
const TermTable& Terms() {
  static const TermTable* const kTerms = [] {
    VocabSpec spec;
    spec.model = "gpt2";
    spec.pre = "gpt2";
    for (uint64_t id = 0; id < kVocabulary; ++id) {
      std::string word;
      for (uint64_t rest = id; word.size() < 4; rest /= 26) {
        word.push_back(static_cast<char>('a' + rest % 26));
      }
      spec.tokens.push_back(word);
    }
    const auto tokenizer = Tokenizer::Create(spec);
    CHECK(tokenizer.ok(), "{}", tokenizer.error().Message());
    return new TermTable(**tokenizer);
  }();
  return *kTerms;
}

std::vector<TokenId> DrawWords(uint64_t stream, int64_t count) {
  std::vector<TokenId> tokens;
  for (int64_t i = 0; i < count; ++i) {
    const double u = RandomUniform(1, stream, static_cast<uint64_t>(i));
    const double rank = std::pow(static_cast<double>(kVocabulary), u) - 1;
    tokens.push_back(static_cast<TokenId>(rank));
  }
  return tokens;
}

std::vector<float> DrawVector(uint64_t stream, int32_t dim) {
  std::vector<float> vector(static_cast<size_t>(dim));
  for (size_t i = 0; i < vector.size(); ++i) {
    vector[i] = static_cast<float>(RandomUniform(2, stream, i)) - 0.5F;
  }
  return vector;
}

void AddSpan(Recall* index, int32_t dim) {
  const auto span = static_cast<int64_t>(index->span_count());
  const LogIndex from = {span * kSpanTokens};
  const auto stream = static_cast<uint64_t>(span);
  const auto added = index->Add({from, from + kSpanTokens}, DrawWords(stream, kSpanTokens - 12),
                                DrawVector(stream, dim));
  CHECK(added.ok(), "{}", added.error().Message());
}

Recall MakeIndex(int64_t spans, int32_t dim) {
  Recall index(&Terms(), {.vector_dim = dim});
  for (int64_t i = 0; i < spans; ++i) AddSpan(&index, dim);
  return index;
}

void CountBytes(const Recall& index, benchmark::State* state) {
  const auto tokens = static_cast<double>(index.span_count() * kSpanTokens);
  state->counters["B/token"] = static_cast<double>(index.bytes()) / tokens;
}

// Arguments: spans, items of a vector (0: words alone).
void BenchSearch(benchmark::State& state) {
  const auto dim = static_cast<int32_t>(state.range(1));
  const Recall index = MakeIndex(state.range(0), dim);
  constexpr uint64_t kMessages = 64;
  std::vector<std::vector<TokenId>> words;
  std::vector<std::vector<float>> vectors;
  for (uint64_t i = 0; i < kMessages; ++i) {
    words.push_back(DrawWords((uint64_t{1} << 40) + i, 24));
    vectors.push_back(DrawVector((uint64_t{1} << 40) + i, dim));
  }
  uint64_t next = 0;
  for (auto _ : state) {
    const uint64_t i = next++ % kMessages;
    benchmark::DoNotOptimize(index.Search({.tokens = words[i], .vector = vectors[i]}));
  }
  CountBytes(index, &state);
}

// One span more, and taken back again.
void BenchAddAndRewind(benchmark::State& state) {
  Recall index = MakeIndex(state.range(0), 384);
  for (auto _ : state) {
    AddSpan(&index, 384);
    index.Rewind(index.span_count() - 1);
  }
}

void BenchForget(benchmark::State& state) {
  const Recall full = MakeIndex(state.range(0), 384);
  Recall index = full;
  SpanId next = 0;
  for (auto _ : state) {
    index.Forget(next++ * 7919 % index.span_count());
  }
}

// To bytes and back.
void BenchPark(benchmark::State& state) {
  const Recall index = MakeIndex(state.range(0), 384);
  size_t bytes = 0;
  for (auto _ : state) {
    std::string parked;
    index.AppendTo(&parked);
    const auto read = Recall::Parse(&Terms(), {}, parked, "");
    CHECK(read.ok());
    bytes = parked.size();
  }
  const auto tokens = static_cast<double>(index.span_count() * kSpanTokens);
  state.counters["B/token"] = static_cast<double>(bytes) / tokens;
}

BENCHMARK(BenchSearch)
    ->Name("Search")
    ->ArgsProduct({{15, 150, 1500, 15000}, {0, 384}})
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchAddAndRewind)->Name("AddAndRewind")->Arg(15000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchForget)->Name("Forget")->Arg(15000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BenchPark)->Name("Park")->Arg(15000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mooring

BENCHMARK_MAIN();
