// The law: a row's numbers depend on its conversation's log and settings and on nothing else. Not
// on the rows beside it, the chunks it came in, the number of threads, a fork, or a way through a
// snapshot. Compared bit by bit, for every table of kernels, precision and key/value type.

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/random.h"
#include "kernels/select.h"
#include "tests/support.h"

namespace mooring::test {
namespace {

constexpr int64_t kReadTokens = 330;  // several windows of it
constexpr int64_t kGeneratedTokens = 40;
constexpr int64_t kReadInCrowd = 150;  // two windows: in a crowd every row costs many
constexpr int64_t kGeneratedInCrowd = 15;
constexpr WindowShape kShape = {.capacity = 70, .anchors = 5};

struct Numerics {
  std::string isa;
  Precision precision;
  DType key_value;
  std::string file;
};

std::string NameOfNumerics(const Numerics& numerics) {
  std::string name = numerics.isa + "_" + std::string(NameOf(numerics.precision)) + "_" +
                     std::string(InfoOf(numerics.key_value).name) + "_" +
                     numerics.file.substr(0, numerics.file.find('.'));
  std::ranges::replace(name, '-', '_');
  return name;
}

[[maybe_unused]] void PrintTo(const Numerics& numerics, std::ostream* out) {
  *out << NameOfNumerics(numerics);
}

// Every way to multiply and every way to store, each beside one of the other. Of plain code, which
// is slow and has no blocks that rows could share, one of each kind.
std::vector<Numerics> AllNumerics() {
  std::vector<Numerics> all;
  for (const Kernels* kernels : RunnableKernels()) {
    const std::string isa(kernels->name);
    all.push_back({isa, Precision::kF32, DType::kF16, "mixed-d64.gguf"});
    all.push_back({isa, Precision::kAuto, DType::kQ8_0, "q4_0-d80.gguf"});
    if (isa == "ref") continue;
    for (const Precision precision : {Precision::kF16, Precision::kBF16, Precision::kInt8}) {
      all.push_back({isa, precision, DType::kF16, "mixed-d64.gguf"});
    }
    all.push_back({isa, Precision::kF32, DType::kF32, "mixed-d64.gguf"});
    for (const char* file : {"mixed-d64.gguf", "q4_1-d128.gguf"}) {
      all.push_back({isa, Precision::kAuto, DType::kQ8_0, file});
    }
  }
  return all;
}

// The logits of every row by log index, and the tokens that were generated.
class TraceSink : public RecordingSink {
 public:
  void OnLogits(LogIndex index, std::span<const float> logits) override {
    // FNV-1a over the bits: a single one that differs shows.
    uint64_t hash = 14695981039346656037ULL;
    for (const float logit : logits) {
      uint32_t bits = 0;
      std::memcpy(&bits, &logit, sizeof(bits));
      hash = (hash ^ bits) * 1099511628211ULL;
    }
    rows_[index.value] = hash;
  }
  const std::map<int64_t, uint64_t>& rows() const { return rows_; }

 private:
  std::map<int64_t, uint64_t> rows_;
};

struct Trace {
  std::map<int64_t, uint64_t> rows;
  std::vector<TokenId> tokens;
  bool operator==(const Trace&) const = default;
};

class LawTest : public testing::TestWithParam<Numerics> {
 protected:
  LoadedModel LoadFor(int threads) const {
    return Load(Golden("tiny/" + GetParam().file),
                {.isa = GetParam().isa, .threads = threads, .precision = GetParam().precision});
  }
  EngineOptions Options(int conversations, int step_rows) const {
    return {.policy = "sinks",
            .window = kShape,
            .key_value = GetParam().key_value,
            .conversations = conversations,
            .step_rows = step_rows,
            .logit_rows = step_rows};
  }
  static std::vector<TokenId> Tokens(const LoadedModel& loaded, uint64_t stream, int64_t count) {
    std::vector<TokenId> tokens(static_cast<size_t>(count));
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>(RandomBits(7, stream, i) %
                                       static_cast<uint64_t>(loaded.model->arch().vocab_size));
    }
    return tokens;
  }
  static TurnRequest Request(std::vector<TokenId> tokens, int64_t generate) {
    TurnRequest request;
    request.tokens = std::move(tokens);
    request.max_tokens = generate;
    request.sampler.temperature = 0;
    request.every_logit = true;
    return request;
  }
  // One conversation, alone: reads, then generates.
  Trace Alone(int step_rows, int threads, int64_t read = kReadTokens,
              int64_t generated = kGeneratedTokens) const {
    const LoadedModel loaded = LoadFor(threads);
    const auto engine = MakeEngine(loaded, Options(1, step_rows));
    TraceSink sink;
    RunTurn(*engine, *engine->Open(), Request(Tokens(loaded, 0, read), generated), &sink);
    return {sink.rows(), sink.tokens()};
  }
  void Expect(const Trace& found, const Trace& expected) const {
    EXPECT_EQ(found.tokens, expected.tokens);
    ASSERT_EQ(found.rows.size(), expected.rows.size());
    for (const auto& [index, hash] : expected.rows) {
      ASSERT_EQ(found.rows.at(index), hash) << "first different row: " << index;
    }
  }
};

TEST_P(LawTest, ChunksAndThreads) {
  const Trace expected = Alone(512, 1);
  ASSERT_EQ(expected.rows.size(), static_cast<size_t>(kReadTokens + kGeneratedTokens - 1));
  for (const int chunk : {1, 7, 64}) {
    SCOPED_TRACE(testing::Message() << "chunks of " << chunk);
    Expect(Alone(chunk, 1), expected);
  }
  for (const int chunk : {7, 512}) {
    SCOPED_TRACE(testing::Message() << "2 threads, chunks of " << chunk);
    Expect(Alone(chunk, 2), expected);
  }
}

TEST_P(LawTest, Neighbours) {
  const Trace expected = Alone(512, 1, kReadInCrowd, kGeneratedInCrowd);
  struct Crowd {
    int conversations, step_rows;
  };
  for (const Crowd crowd : {Crowd{4, 4}, Crowd{3, 5}, Crowd{4, 16}, Crowd{6, 64}}) {
    SCOPED_TRACE(testing::Message() << crowd.step_rows << " rows of " << crowd.conversations);
    const LoadedModel loaded = LoadFor(2);
    const auto engine = MakeEngine(loaded, Options(crowd.conversations, crowd.step_rows));
    std::vector<RecordingSink> neighbours(static_cast<size_t>(crowd.conversations - 1));
    for (size_t i = 0; i < neighbours.size(); ++i) {
      TurnRequest request = Request(Tokens(loaded, i + 1, i % 2 == 0 ? 5 : 4000), 4000);
      request.every_logit = false;
      ASSERT_TRUE(engine->Submit(*engine->Open(), std::move(request), &neighbours[i]).ok());
    }
    for (int i = 0; i < 9; ++i) engine->Step();  // ours comes in the midst of things
    TraceSink sink;
    RunTurn(*engine, *engine->Open(), Request(Tokens(loaded, 0, kReadInCrowd), kGeneratedInCrowd),
            &sink);
    Expect({sink.rows(), sink.tokens()}, expected);
  }
}

TEST_P(LawTest, ForkAndSnapshot) {
  const Trace expected = Alone(512, 1);
  for (const int64_t cut : {int64_t{3}, int64_t{5}, int64_t{21}, int64_t{200}, int64_t{325}}) {
    SCOPED_TRACE(testing::Message() << "cut at " << cut);
    const LoadedModel loaded = LoadFor(2);
    const auto engine = MakeEngine(loaded, Options(3, 64));
    const std::vector<TokenId> tokens = Tokens(loaded, 0, kReadTokens);
    const auto id = engine->Open();
    TraceSink head;
    RunTurn(*engine, *id, Request({tokens.begin(), tokens.begin() + cut}, 0), &head);
    const auto fork = engine->Fork(*id);
    ASSERT_TRUE(fork.ok());
    std::string bytes;
    engine->AppendSnapshot(*id, &bytes);

    // The original goes another way first: what it writes must not reach the fork.
    RecordingSink ignored;
    RunTurn(*engine, *id, Request(Tokens(loaded, 9, 90), 5), &ignored);

    const auto finish = [&](Engine& in, ConversationId which) {
      TraceSink tail;
      RunTurn(in, which, Request({tokens.begin() + cut, tokens.end()}, kGeneratedTokens), &tail);
      Trace trace = {head.rows(), tail.tokens()};
      trace.rows.insert(tail.rows().begin(), tail.rows().end());
      return trace;
    };
    Expect(finish(*engine, *fork), expected);

    const LoadedModel other = LoadFor(1);
    const auto elsewhere = MakeEngine(other, Options(2, 64));
    RunTurn(*elsewhere, *elsewhere->Open(), Request(Tokens(other, 3, 100), 0), &ignored);
    const auto restored = elsewhere->OpenSnapshot(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(restored.ok()) << restored.error().Message();
    Expect(finish(*elsewhere, *restored), expected);
  }
}

// Pages of another conversation that began alike are those that it would have written, also when
// the other has long gone on and what they share has left both windows.
TEST_P(LawTest, Age) {
  const LoadedModel loaded = LoadFor(2);
  const auto engine = MakeEngine(loaded, Options(2, 64));
  const std::vector<TokenId> tokens = Tokens(loaded, 0, kReadTokens);
  // The rows by their number had nobody made the conversation older.
  const auto finish = [&](ConversationId id, int64_t cut, int64_t age) {
    TraceSink tail;
    RunTurn(*engine, id, Request({tokens.begin() + cut, tokens.end()}, kGeneratedTokens), &tail);
    Trace trace = {{}, tail.tokens()};
    for (const auto& [index, hash] : tail.rows()) trace.rows[index - age] = hash;
    EXPECT_EQ(trace.rows.begin()->first, cut);
    engine->Close(id);
    return trace;
  };
  for (const int64_t cut : {int64_t{kShape.anchors} + 1, int64_t{21}, int64_t{200}}) {
    SCOPED_TRACE(testing::Message() << "aged at " << cut);
    std::map<int64_t, Trace> traces;
    for (const int64_t age : {kAlikeTokens, (1'000'000 / kAlikeTokens + 1) * kAlikeTokens}) {
      const auto id = engine->Open();
      RecordingSink ignored;
      RunTurn(*engine, *id, Request({tokens.begin(), tokens.begin() + cut}, 0), &ignored);
      engine->Age(*id, age);
      std::string bytes;
      engine->AppendSnapshot(*id, &bytes);
      traces[age] = finish(*id, cut, age);
      const auto restored = engine->OpenSnapshot(std::as_bytes(std::span(bytes)));
      ASSERT_TRUE(restored.ok()) << restored.error().Message();
      Expect(finish(*restored, cut, age), traces[age]);
    }
    Expect(traces.begin()->second, traces.rbegin()->second);
  }
}

TEST_P(LawTest, SharedBeginnings) {
  constexpr int64_t kAlike = 60;
  const Trace expected = Alone(512, 1);
  const LoadedModel loaded = LoadFor(2);
  const auto engine = MakeEngine(loaded, Options(3, 64));
  const std::vector<TokenId> tokens = Tokens(loaded, 0, kReadTokens);
  const auto request = [](std::vector<TokenId> read, int64_t generate) {
    TurnRequest made = Request(std::move(read), generate);
    made.every_logit = false;
    made.shares_as = "one";
    return made;
  };
  const auto first = engine->Open();
  std::vector<TokenId> other(tokens.begin(), tokens.begin() + kAlike);
  other.resize(kAlike + 8, 3);
  RecordingSink ignored;
  RunTurn(*engine, *first, request(other, 5), &ignored);
  EXPECT_EQ(ignored.stats().shared_tokens, 0);
  const auto check = [&] {
    TraceSink sink;
    const auto id = engine->Open();
    RunTurn(*engine, *id, request(tokens, kGeneratedTokens), &sink);
    EXPECT_EQ(sink.stats().shared_tokens, kShape.anchors + 48);  // whole pages
    EXPECT_EQ(sink.tokens(), expected.tokens);
    ASSERT_EQ(sink.rows().size(), static_cast<size_t>(kGeneratedTokens));
    for (const auto& [index, hash] : sink.rows()) ASSERT_EQ(hash, expected.rows.at(index));
  };
  check();
  RunTurn(*engine, *first, request(Tokens(loaded, 9, 200), 5), &ignored);
  check();
}

// Going on where the log ends reads its last token once more; that changes nothing.
TEST_P(LawTest, TurnsThatGoOn) {
  const Trace expected = Alone(512, 1);
  const LoadedModel loaded = LoadFor(2);
  const auto engine = MakeEngine(loaded, Options(1, 64));
  const auto id = engine->Open();
  TraceSink sink;
  RunTurn(*engine, *id, Request(Tokens(loaded, 0, kReadTokens), 0), &sink);
  for (int i = 0; i < 4; ++i) RunTurn(*engine, *id, Request({}, kGeneratedTokens / 4), &sink);
  Expect({sink.rows(), sink.tokens()}, expected);
}

// A talk in which spans come back: some right before a message, some behind the anchors, some that
// stay for two messages, one while its window is full of short pages.
struct Message {
  int64_t from, to;  // of the tokens
  std::vector<OfferedSpan> found;
};
const std::vector<Message>& Messages() {
  static const std::vector<Message> messages = {
      {0, 120, {}},
      {120, 170, {{{{40}, {55}}, true}, {{{10}, {19}}, false}}},
      {170, 175, {{{{12}, {18}}, false}}},
      {175, 178, {{{{60}, {75}}, false}}},
      {178, 260, {}},
      {260, 330, {{{{90}, {107}}, true}}},
  };
  return messages;
}

TEST_P(LawTest, WhatComesBack) {
  constexpr WindowShape shape = {
      .capacity = 70, .anchors = 5, .expire_by_page = false, .recalled = 26};
  const auto options = [this, &shape](int conversations, int step_rows) {
    EngineOptions all = Options(conversations, step_rows);
    all.policy = "recall";
    all.window = shape;
    return all;
  };
  // Each message with what it calls back, two tokens said after each, and a longer answer to end.
  const auto say = [this](Engine& engine, ConversationId id, const LoadedModel& loaded,
                          size_t first, size_t last, TraceSink* sink) {
    const std::vector<TokenId> tokens = Tokens(loaded, 0, kReadTokens);
    for (size_t i = first; i < last; ++i) {
      const Message& message = Messages()[i];
      TurnRequest request = Request({tokens.begin() + message.from, tokens.begin() + message.to},
                                    i + 1 == Messages().size() ? kGeneratedTokens : 2);
      request.message_start = true;
      request.found = message.found;
      RunTurn(engine, id, std::move(request), sink);
    }
  };
  const auto alone = [&](int step_rows, int threads) {
    const LoadedModel loaded = LoadFor(threads);
    const auto engine = MakeEngine(loaded, options(1, step_rows));
    TraceSink sink;
    say(*engine, *engine->Open(), loaded, 0, Messages().size(), &sink);
    return Trace{sink.rows(), sink.tokens()};
  };
  const Trace expected = alone(512, 1);
  EXPECT_NE(expected.rows, Alone(512, 1).rows);
  Expect(alone(1, 1), expected);
  Expect(alone(7, 2), expected);
  Expect(alone(64, 2), expected);

  // Among others, forked and restored in the middle, while spans stand in the window.
  const LoadedModel loaded = LoadFor(2);
  const auto engine = MakeEngine(loaded, options(4, 20));
  RecordingSink neighbour;
  ASSERT_TRUE(
      engine->Submit(*engine->Open(), Request(Tokens(loaded, 1, 900), 4000), &neighbour).ok());
  const auto id = engine->Open();
  TraceSink head;
  say(*engine, *id, loaded, 0, 3, &head);
  std::string bytes;
  engine->AppendSnapshot(*id, &bytes);
  const auto fork = engine->Fork(*id);
  const auto restored = engine->OpenSnapshot(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(fork.ok() && restored.ok());
  RecordingSink ignored;
  RunTurn(*engine, *id, Request(Tokens(loaded, 9, 50), 3), &ignored);
  for (const ConversationId which : {*fork, *restored}) {
    TraceSink tail = head;
    say(*engine, which, loaded, 3, Messages().size(), &tail);
    Expect({tail.rows(), tail.tokens()}, expected);
  }

  // The journal and the log are enough to repeat it, in whatever steps.
  const Conversation* done = engine->Find(*restored);
  TraceSink again;
  const auto replay = MakeEngine(loaded, options(1, 31));
  const auto replayed = replay->OpenLog(done->log(), done->journal());
  ASSERT_TRUE(replayed.ok());
  RunTurn(*replay, *replayed, Request({}, 0), &again);
  for (const auto& [index, hash] : expected.rows) ASSERT_EQ(again.rows().at(index), hash) << index;
  EXPECT_EQ(replay->Find(*replayed)->journal(), done->journal());
  const auto held = [](const Conversation& conversation) {
    std::vector<LogRange> ranges;
    for (const RecalledSpan& span : conversation.window().Facts().recalled) {
      ranges.push_back(span.range);
    }
    return ranges;
  };
  EXPECT_EQ(held(*replay->Find(*replayed)), held(*done));

  // So are the snapshot from the middle and what was said since.
  const auto longer = MakeEngine(loaded, options(1, 31));
  const auto half = longer->OpenSnapshot(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(half.ok());
  const LogIndex begun = longer->Find(*half)->window().next();
  ASSERT_EQ(longer->GoOnTo(*half, done->log(), done->journal()).value(), true);
  TraceSink rest;
  RunTurn(*longer, *half, Request({}, 0), &rest);
  for (const auto& [index, hash] : expected.rows) {
    if (index < begun.value) continue;
    ASSERT_EQ(rest.rows().at(index), hash) << index;
  }
  EXPECT_EQ(held(*longer->Find(*half)), held(*done));
  EXPECT_EQ(longer->GoOnTo(*half, TokenLog(), {}).value(), false);
}

INSTANTIATE_TEST_SUITE_P(All, LawTest, testing::ValuesIn(AllNumerics()),
                         [](const auto& numerics) { return NameOfNumerics(numerics.param); });

}  // namespace
}  // namespace mooring::test
