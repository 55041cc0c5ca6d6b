// The engine from outside, with a tiny model: ends of turns, stop strings, cancels, limits,
// neighbours.

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "tests/support.h"

namespace mooring::test {
namespace {

class EngineTest : public testing::Test {
 protected:
  EngineTest() : loaded_(Load(Golden("tiny/mixed-d64.gguf"), {.threads = 2})) {}

  std::unique_ptr<Engine> Make(EngineOptions options = {}) const {
    if (options.window.capacity == 2048) options.window = {.capacity = 64, .anchors = 4};
    return MakeEngine(loaded_, options);
  }
  static TurnRequest Greedy(std::vector<TokenId> tokens, int64_t generate) {
    TurnRequest request;
    request.tokens = std::move(tokens);
    request.max_tokens = generate;
    request.sampler.temperature = 0;
    return request;
  }
  const std::vector<TokenId> prompt_ = {72, 101, 108, 108, 111, 32, 119, 111};

  LoadedModel loaded_;
};

TEST_F(EngineTest, EndsAtMaxTokens) {
  const auto engine = Make();
  RecordingSink sink;
  EXPECT_EQ(RunTurn(*engine, *engine->Open(), Greedy(prompt_, 12), &sink), TurnEnd::kLength);
  EXPECT_EQ(sink.tokens().size(), 12U);
  EXPECT_EQ(sink.stats().generated_tokens, 12);
  EXPECT_EQ(sink.stats().read_tokens, static_cast<int64_t>(prompt_.size()));
}

TEST_F(EngineTest, EndTokensAreLoggedAndNotShown) {
  const auto engine = Make();
  RecordingSink whole;
  RunTurn(*engine, *engine->Open(), Greedy(prompt_, 1), &whole);
  const auto second = Make();
  const auto id = second->Open();
  TurnRequest request = Greedy(prompt_, 50);
  request.end_tokens = {whole.tokens()[0]};
  RecordingSink sink;
  EXPECT_EQ(RunTurn(*second, *id, std::move(request), &sink), TurnEnd::kStop);
  EXPECT_EQ(sink.text(), "");
  EXPECT_EQ(second->Find(*id)->log().end().value, static_cast<int64_t>(prompt_.size()) + 1);
}

// Wherever a stop string begins and ends among the tokens, nothing of it is sent or stays in the
// log.
TEST_F(EngineTest, StopStringsStraddleTokens) {
  const auto engine = Make();
  RecordingSink whole;
  RunTurn(*engine, *engine->Open(), Greedy(prompt_, 40), &whole);
  const std::string& text = whole.text();
  ASSERT_GE(text.size(), 12U);
  for (size_t length = 1; length <= 6; ++length) {
    for (size_t start = 0; start + length <= std::min<size_t>(text.size(), 24); ++start) {
      const std::string stop = text.substr(start, length);
      const size_t first = text.find(stop);
      const auto again = Make();
      const auto id = again->Open();
      TurnRequest request = Greedy(prompt_, 40);
      request.stop = {stop, "never to be seen"};
      RecordingSink sink;
      ASSERT_EQ(RunTurn(*again, *id, std::move(request), &sink), TurnEnd::kStopString) << stop;
      EXPECT_EQ(sink.text(), text.substr(0, first));
      // The log says what was shown, but for a token that lies across the cut.
      std::string logged;
      const TokenLog& log = again->Find(*id)->log();
      for (int64_t i = static_cast<int64_t>(prompt_.size()); i < log.end().value; ++i) {
        logged += loaded_.tokenizer->PieceBytes(log.token({i}));
      }
      EXPECT_LT(logged.size(), first + 24);
      EXPECT_LE(again->Find(*id)->pending_rows(), 1);
    }
  }
}

// Over several answers: the penalty reaches behind what others said in between.
TEST_F(EngineTest, TheSequencePenaltyKeepsAnswersApart) {
  const auto repeated = [this](float multiplier) {
    const auto engine = Make();
    const auto id = engine->Open();
    std::vector<std::vector<TokenId>> pairs;
    for (int turn = 0; turn < 4; ++turn) {
      TurnRequest request = Greedy(prompt_, 60);
      request.sampler.dry_multiplier = multiplier;
      request.sampler.dry_allowed_length = 1;
      RecordingSink sink;
      RunTurn(*engine, *id, std::move(request), &sink);
      for (auto end = sink.tokens().begin() + 2; end <= sink.tokens().end(); ++end) {
        pairs.emplace_back(end - 2, end);
      }
    }
    const size_t all = pairs.size();
    std::ranges::sort(pairs);
    return all - static_cast<size_t>(std::ranges::unique(pairs).begin() - pairs.begin());
  };
  EXPECT_GT(repeated(0), 0U);
  EXPECT_EQ(repeated(100), 0U);
}

TEST_F(EngineTest, AFullDenseWindowIsAnAnswer) {
  const auto engine = Make({.policy = "dense", .window = {.capacity = 20, .anchors = 4}});
  const auto id = engine->Open();
  RecordingSink sink;
  EXPECT_EQ(RunTurn(*engine, *id, Greedy(prompt_, 1000), &sink), TurnEnd::kWindowFull);
  EXPECT_EQ(engine->Find(*id)->window().next().value, 20);
  RecordingSink more;
  EXPECT_EQ(RunTurn(*engine, *id, Greedy(prompt_, 5), &more), TurnEnd::kWindowFull);
  EXPECT_TRUE(more.tokens().empty());
}

TEST_F(EngineTest, DenseEqualsSinksWhileNothingHasLeft) {
  const std::vector<TokenId> tokens(50, 65);
  const auto dense = Make({.policy = "dense", .logit_rows = 50});
  const auto sinks = Make({.policy = "sinks", .logit_rows = 50});
  EXPECT_EQ(Losses(*dense, tokens), Losses(*sinks, tokens));
}

TEST_F(EngineTest, CancelEndsTheTurnAtTheNextStep) {
  const auto engine = Make();
  const auto id = engine->Open();
  RecordingSink sink;
  ASSERT_TRUE(engine->Submit(*id, Greedy(prompt_, 1000000), &sink).ok());
  for (int i = 0; i < 5; ++i) engine->Step();
  engine->Cancel(*id);
  engine->Step();
  EXPECT_EQ(sink.end(), TurnEnd::kCancelled);
  EXPECT_FALSE(engine->Find(*id)->busy());
  // It goes on from there.
  RecordingSink next;
  EXPECT_EQ(RunTurn(*engine, *id, Greedy(prompt_, 3), &next), TurnEnd::kLength);
}

TEST_F(EngineTest, CancelWhileReadingKeepsOnlyWhatWasRead) {
  const auto engine = Make({.step_rows = 16});
  const auto id = engine->Open();
  RecordingSink sink;
  ASSERT_TRUE(engine->Submit(*id, Greedy(std::vector<TokenId>(500, 70), 5), &sink).ok());
  engine->Step();
  engine->Cancel(*id);
  engine->Step();
  EXPECT_EQ(sink.end(), TurnEnd::kCancelled);
  EXPECT_EQ(engine->Find(*id)->log().end().value, 16);
}

TEST_F(EngineTest, CancelBeforeTheFirstStep) {
  const auto engine = Make();
  const auto id = engine->Open();
  RecordingSink sink;
  ASSERT_TRUE(engine->Submit(*id, Greedy(prompt_, 5), &sink).ok());
  engine->Cancel(*id);
  engine->Step();
  EXPECT_EQ(sink.end(), TurnEnd::kCancelled);
  EXPECT_TRUE(engine->Find(*id)->log().empty());
}

TEST_F(EngineTest, AFullQueueTakesACancel) {
  const auto engine = Make();
  const auto id = engine->Open();
  RecordingSink sink;
  ASSERT_TRUE(engine->Submit(*id, Greedy(prompt_, 1000), &sink).ok());
  for (int i = 0; i < 5; ++i) engine->Step();
  RecordingSink nobody;
  while (engine->Submit(*id + 1, Greedy(prompt_, 1), &nobody).ok()) {
  }
  engine->Cancel(*id);
  engine->Cancel(*id);
  engine->Step();
  EXPECT_EQ(sink.end(), TurnEnd::kCancelled);
}

TEST_F(EngineTest, SubmitAndCancelFromOtherThreads) {
  const auto engine = Make({.conversations = 3});
  std::vector<ConversationId> ids;
  for (int i = 0; i < 3; ++i) ids.push_back(*engine->Open());
  std::vector<RecordingSink> sinks(3);
  std::vector<std::thread> threads;
  threads.reserve(3);
  for (size_t i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      EXPECT_TRUE(engine->Submit(ids[i], Greedy(prompt_, 100000), &sinks[i]).ok());
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      engine->Cancel(ids[i]);
    });
  }
  const auto ended = [&] {
    return std::ranges::all_of(sinks,
                               [](const RecordingSink& sink) { return sink.end().has_value(); });
  };
  while (!ended()) engine->Step();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EngineTest, RefusesBadRequests) {
  const auto engine = Make();
  const auto id = engine->Open();
  RecordingSink sink;
  TurnRequest request = Greedy({-1}, 1);
  EXPECT_FALSE(engine->Submit(*id, request, &sink).ok());
  request = Greedy({static_cast<TokenId>(loaded_.model->arch().vocab_size)}, 1);
  EXPECT_FALSE(engine->Submit(*id, request, &sink).ok());
  request = Greedy(prompt_, 1);
  request.stop = {""};
  EXPECT_FALSE(engine->Submit(*id, request, &sink).ok());
  request.stop = {std::string(kMaxStopBytes + 1, 'x')};
  EXPECT_FALSE(engine->Submit(*id, request, &sink).ok());
  request.stop.assign(kMaxStopStrings + 1, "x");
  EXPECT_FALSE(engine->Submit(*id, request, &sink).ok());
  request.stop.clear();
  request.sampler.temperature = -1;
  EXPECT_FALSE(engine->Submit(*id, request, &sink).ok());
  EXPECT_FALSE(engine->Step());
}

TEST_F(EngineTest, NothingToGoOnFromEndsAtOnce) {
  const auto engine = Make();
  RecordingSink sink;
  EXPECT_EQ(RunTurn(*engine, *engine->Open(), Greedy({}, 5), &sink), TurnEnd::kLength);
  EXPECT_TRUE(sink.tokens().empty());
}

TEST_F(EngineTest, WindowsBeyondTheTrainedOneAreRefusedWithTheNumber) {
  const int64_t trained = loaded_.model->arch().trained_window;
  EngineOptions options;
  options.window.capacity = static_cast<int32_t>(trained) + 1;
  const auto refused = Engine::Create(loaded_.model.get(), loaded_.tokenizer.get(), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kUsage);
  EXPECT_NE(refused.error().Message().find(std::to_string(trained)), std::string::npos);
  options.force_window = true;
  EXPECT_TRUE(Engine::Create(loaded_.model.get(), loaded_.tokenizer.get(), options).ok());
}

TEST_F(EngineTest, OnlyAsManyConversationsAsWereAskedFor) {
  const auto engine = Make({.conversations = 2});
  const auto first = engine->Open();
  ASSERT_TRUE(engine->Open().ok());
  const auto third = engine->Open();
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.error().kind, ErrorKind::kResources);
  EXPECT_FALSE(engine->Fork(*first).ok());
  engine->Close(*first);
  EXPECT_TRUE(engine->Open().ok());
}

TEST_F(EngineTest, MemoryStaysAndPagesComeBack) {
  const auto engine = Make({.conversations = 2});
  const uint64_t pages = engine->memory().pages;
  for (int i = 0; i < 20; ++i) {
    const auto id = engine->Open();
    RecordingSink sink;
    RunTurn(*engine, *id, Greedy(std::vector<TokenId>(200, 66), 10), &sink);
    EXPECT_LE(engine->Find(*id)->window().attended(), 64);
    engine->Close(*id);
  }
  EXPECT_EQ(engine->memory().pages, pages);
}

// A log without its pages is read again, and what follows is what would have followed, over many
// windows too.
TEST_F(EngineTest, AnOpenedLogGoesOnAsIfItHadNeverStopped) {
  EngineOptions options;
  options.conversations = 2;
  const auto engine = Make(options);
  const auto id = engine->Open();
  RecordingSink before;
  RunTurn(*engine, *id, Greedy(prompt_, 200), &before);
  const auto again = engine->OpenLog(engine->Find(*id)->log());
  ASSERT_TRUE(again.ok());
  RecordingSink whole;
  RecordingSink reread;
  RunTurn(*engine, *id, Greedy(prompt_, 40), &whole);
  RunTurn(*engine, *again, Greedy(prompt_, 40), &reread);
  EXPECT_EQ(reread.tokens(), whole.tokens());
  EXPECT_FALSE(engine->OpenLog({}).ok());  // no room
}

TEST_F(EngineTest, BeginningsAreSharedUnderOneNameOnly) {
  const auto engine = Make({.conversations = 3});
  const auto shared = [&](const std::string& name, int64_t length) {
    TurnRequest request = Greedy(std::vector<TokenId>(static_cast<size_t>(length), 66), 2);
    request.shares_as = name;
    RecordingSink sink;
    const auto id = engine->Open();
    RunTurn(*engine, *id, std::move(request), &sink);
    EXPECT_EQ(sink.stats().shared_tokens + sink.stats().read_tokens, length);
    EXPECT_EQ(engine->Find(*id)->log().end().value, length + 2);
    engine->Close(*id);
    return sink.stats().shared_tokens;
  };
  EXPECT_EQ(shared("alice", 20), 0);
  EXPECT_EQ(shared("alice", 20), 0);  // too short to be kept
  EXPECT_EQ(shared("alice", 50), 0);
  EXPECT_EQ(shared("bob", 50), 0);
  EXPECT_EQ(shared("", 50), 0);
  EXPECT_EQ(shared("alice", 50), 36);
  EXPECT_EQ(shared("bob", 60), 36);
  // The last token is always read: its row makes the logits.
  EXPECT_EQ(shared("alice", 36), 20);
  EXPECT_LT(engine->numbers().free_pages, engine->numbers().pages);
  engine->DropKept();
  EXPECT_EQ(engine->numbers().free_pages, engine->numbers().pages);
  EXPECT_EQ(shared("alice", 50), 0);
}

TEST_F(EngineTest, BeginningsGiveWayToConversations) {
  const auto engine = Make({.conversations = 2});
  for (int round = 0; round < 12; ++round) {
    std::vector<ConversationId> ids;
    for (int i = 0; i < 2; ++i) {
      TurnRequest request = Greedy(std::vector<TokenId>(60, 10 + 2 * round + i), 300);
      request.shares_as = "one";
      RecordingSink sink;
      ids.push_back(*engine->Open());
      EXPECT_EQ(RunTurn(*engine, ids.back(), std::move(request), &sink), TurnEnd::kLength);
    }
    std::string bytes;
    engine->AppendSnapshot(ids[0], &bytes);
    engine->Close(ids[0]);
    const auto back = engine->OpenSnapshot(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(back.ok()) << back.error().Message();
    engine->Close(*back);
    engine->Close(ids[1]);
  }
}

TEST_F(EngineTest, ATurnThatEndsWhileALogIsReadAgainLeavesWhatWasRead) {
  EngineOptions options;
  options.step_rows = 16;
  const auto engine = Make(options);
  TokenLog log;
  for (int i = 0; i < 100; ++i) log.Append(prompt_[static_cast<size_t>(i) % 8], i % 3 == 0);
  const auto id = engine->OpenLog(log);
  RecordingSink sink;
  ASSERT_TRUE(engine->Submit(*id, Greedy(prompt_, 5), &sink).ok());
  engine->Step();
  engine->Cancel(*id);
  engine->RunUntilIdle(*id);
  EXPECT_EQ(sink.end(), TurnEnd::kCancelled);
  const Conversation& conversation = *engine->Find(*id);
  EXPECT_GE(conversation.log().end().value, 16);
  EXPECT_LT(conversation.log().end().value, 100);
  EXPECT_LE(conversation.pending_rows(), 1);
  TokenLog foreign;
  foreign.Append(TokenLog::kMaxToken, false);
  engine->Close(*id);
  EXPECT_FALSE(engine->OpenLog(std::move(foreign)).ok());
}

TEST_F(EngineTest, DamagedSnapshotsAreRefusedAndChangeNothing) {
  const auto engine = Make({.conversations = 2});
  const auto id = engine->Open();
  RecordingSink sink;
  RunTurn(*engine, *id, Greedy(prompt_, 4), &sink);
  std::string bytes;
  engine->AppendSnapshot(*id, &bytes);
  for (size_t length = 0; length < bytes.size(); length += 7) {
    EXPECT_FALSE(engine->OpenSnapshot(std::as_bytes(std::span(bytes).first(length))).ok());
  }
  std::string bad = bytes;
  bad[8 + 3] = '\x7f';  // the first token's id
  EXPECT_FALSE(engine->OpenSnapshot(std::as_bytes(std::span(bad))).ok());
  ASSERT_TRUE(engine->OpenSnapshot(std::as_bytes(std::span(bytes))).ok());
}

TurnRequest AsksFor(TurnRequest request, std::vector<OfferedSpan> found) {
  request.message_start = true;
  request.found = std::move(found);
  return request;
}

TEST_F(EngineTest, RefusesSpansThatCannotComeBack) {
  const auto engine =
      Make({.policy = "recall",
            .window = {.capacity = 64, .anchors = 4, .expire_by_page = false, .recalled = 16}});
  const auto id = engine->Open();
  RecordingSink sink;
  const auto submit = [&](std::vector<OfferedSpan> found) {
    return engine->Submit(*id, AsksFor(Greedy(prompt_, 1), std::move(found)), &sink);
  };
  EXPECT_FALSE(submit({{{{0}, {17}}, false}}).ok());
  EXPECT_FALSE(submit({{{{5}, {5}}, false}}).ok());
  EXPECT_FALSE(submit({{{{-1}, {5}}, false}}).ok());
  EXPECT_FALSE(submit(std::vector<OfferedSpan>(9, {{{0}, {4}}, false})).ok());
  // Not said yet: passed over, for the log may have been rewound since it was found.
  EXPECT_EQ(RunTurn(*engine, *id, AsksFor(Greedy(prompt_, 1), {{{{3}, {9}}, false}}), &sink),
            TurnEnd::kLength);
  EXPECT_EQ(sink.stats().reread_tokens, 0);
}

// A message that is cancelled while its spans are read again was never there.
TEST_F(EngineTest, ACancelWhileSpansAreReadChangesNothing) {
  const auto engine =
      Make({.policy = "recall",
            .window = {.capacity = 64, .anchors = 4, .expire_by_page = false, .recalled = 24},
            .conversations = 2,
            .step_rows = 8});
  std::vector<TokenId> long_prompt;
  for (int i = 0; i < 20; ++i)
    long_prompt.insert(long_prompt.end(), prompt_.begin(), prompt_.end());
  const auto id = engine->Open();
  RecordingSink ignored;
  RunTurn(*engine, *id, Greedy(long_prompt, 2), &ignored);
  const auto twin = engine->Fork(*id);
  RecordingSink cancelled;
  ASSERT_TRUE(
      engine->Submit(*id, AsksFor(Greedy(prompt_, 4), {{{{10}, {34}}, false}}), &cancelled).ok());
  engine->Step();
  engine->Step();
  EXPECT_EQ(engine->Find(*id)->window().recalled_slots(), 0);
  engine->Cancel(*id);
  engine->RunUntilIdle(*id);
  EXPECT_EQ(cancelled.end(), TurnEnd::kCancelled);
  EXPECT_GT(cancelled.stats().reread_tokens, 0);
  EXPECT_TRUE(engine->Find(*id)->journal().empty());
  RecordingSink after, expected;
  RunTurn(*engine, *id, AsksFor(Greedy(prompt_, 6), {{{{10}, {34}}, false}}), &after);
  RunTurn(*engine, *twin, AsksFor(Greedy(prompt_, 6), {{{{10}, {34}}, false}}), &expected);
  EXPECT_EQ(after.tokens(), expected.tokens());
  EXPECT_EQ(after.stats().reread_tokens, 24);
  EXPECT_EQ(engine->Find(*id)->window().recalled_slots(), 24);
}

// What was read again once is not computed a second time, nor by a conversation that says the same
// under the same name; and it makes no difference to what is answered.
class KeptSpansTest : public EngineTest {
 protected:
  static EngineOptions Options(uint64_t span_bytes) {
    return {.policy = "recall",
            .window = {.capacity = 64, .anchors = 4, .expire_by_page = false, .recalled = 24},
            .conversations = 3,
            .step_rows = 16,
            .span_bytes = span_bytes};
  }
  std::vector<TokenId> LongPrompt() const {
    std::vector<TokenId> tokens;
    for (int i = 0; i < 160; ++i) tokens.push_back(prompt_[i % 8] + i / 16);
    return tokens;
  }
  static TurnRequest Named(TurnRequest request, std::string_view name) {
    request.shares_as = name;
    return request;
  }
  // Turn 0 is a long text; those behind it ask for a span, for nothing until it has left, for it
  // again and for another one.
  RecordingSink Turn(Engine* engine, ConversationId id, std::string_view name, size_t turn) const {
    const std::vector<std::vector<OfferedSpan>> asked = {{kSpan}, {}, {}, {kSpan}, {kOther}};
    RecordingSink sink;
    TurnRequest request =
        turn == 0 ? Greedy(LongPrompt(), 2) : AsksFor(Greedy(prompt_, 6), asked[turn - 1]);
    RunTurn(*engine, id, Named(std::move(request), name), &sink);
    return sink;
  }
  std::vector<RecordingSink> Talk(Engine* engine, ConversationId id, std::string_view name) const {
    std::vector<RecordingSink> sinks;
    for (size_t turn = 0; turn < 6; ++turn) sinks.push_back(Turn(engine, id, name, turn));
    return sinks;
  }
  static constexpr OfferedSpan kSpan = {{{10}, {34}}, false};
  static constexpr OfferedSpan kOther = {{{40}, {53}}, true};
  static constexpr uint64_t kPlenty = 64 << 20;
};

TEST_F(KeptSpansTest, ASpanIsReadAgainOnce) {
  const auto without = Make(Options(0));
  const auto with = Make(Options(kPlenty));
  const auto expected = Talk(without.get(), *without->Open(), "a");
  const auto got = Talk(with.get(), *with->Open(), "a");
  const std::vector<int64_t> reread = {0, 24, 0, 0, 24, 13};
  for (size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens(), expected[i].tokens()) << i;
    EXPECT_EQ(expected[i].stats().reread_tokens, reread[i]) << i;
    EXPECT_EQ(got[i].stats().reread_tokens, i == 4 ? 0 : reread[i]) << i;
  }
  EXPECT_EQ(without->numbers().span_bytes, 0);
  EXPECT_GT(with->numbers().span_bytes, 0);
  EXPECT_EQ(with->numbers().counters.spared_tokens, 24);
}

TEST_F(KeptSpansTest, TheyAreSharedUnderOneNameOnly) {
  const auto engine = Make(Options(kPlenty));
  const auto reread = [&](std::string_view name) {
    return Talk(engine.get(), *engine->Open(), name)[1].stats().reread_tokens;
  };
  EXPECT_EQ(reread("a"), 24);
  EXPECT_EQ(reread("a"), 0);
  EXPECT_EQ(reread("b"), 24);
}

TEST_F(KeptSpansTest, WhatWasNotNamedStaysWithItsConversation) {
  const auto engine = Make(Options(kPlenty));
  EXPECT_EQ(Talk(engine.get(), *engine->Open(), "")[1].stats().reread_tokens, 24);
  EXPECT_EQ(Talk(engine.get(), *engine->Open(), "")[1].stats().reread_tokens, 24);
}

TEST_F(KeptSpansTest, OtherTokensAreAnotherSpan) {
  const auto engine = Make(Options(kPlenty));
  Talk(engine.get(), *engine->Open(), "a");
  for (const size_t changed : {size_t{0}, size_t{33}}) {  // an anchor; the last of the span
    std::vector<TokenId> tokens = LongPrompt();
    ++tokens[changed];
    const auto id = engine->Open();
    RecordingSink sink;
    RunTurn(*engine, *id, Named(Greedy(std::move(tokens), 2), "a"), &sink);
    RunTurn(*engine, *id, Named(AsksFor(Greedy(prompt_, 6), {kSpan}), "a"), &sink);
    EXPECT_EQ(sink.stats().reread_tokens, 24) << changed;
    engine->Close(*id);
  }
}

TEST_F(KeptSpansTest, TheyAreBoundedAndGoWhenAsked) {
  const auto plenty = Make(Options(kPlenty));
  const auto id = plenty->Open();
  Talk(plenty.get(), *id, "a");
  const auto both = static_cast<uint64_t>(plenty->numbers().span_bytes);  // of 24 tokens and of 13
  plenty->DropKept();
  EXPECT_EQ(plenty->numbers().span_bytes, 0);
  const auto tight = Make(Options(both - 1));
  EXPECT_EQ(Talk(tight.get(), *tight->Open(), "a")[4].stats().reread_tokens, 0);
  EXPECT_GT(tight->numbers().span_bytes, 0);
  EXPECT_LT(static_cast<uint64_t>(tight->numbers().span_bytes), both);
  const auto none = Make(Options(1));
  EXPECT_EQ(Talk(none.get(), *none->Open(), "a")[4].stats().reread_tokens, 24);
  EXPECT_EQ(none->numbers().span_bytes, 0);
}

// Between turns, in short steps; a turn that comes meanwhile goes first, and what it asks for that
// was not read to the end is read with it.
TEST_F(KeptSpansTest, SpansAreReadAheadOfTheMessageThatAsks) {
  const auto without = Make(Options(0));
  const auto expected = Talk(without.get(), *without->Open(), "a");
  const auto engine = Make(Options(kPlenty));
  const auto id = engine->Open();
  Turn(engine.get(), *id, "a", 0);
  EXPECT_FALSE(engine->Step());
  const int64_t free_pages = engine->numbers().free_pages;
  const std::vector<LogRange> spans = {kOther.range, {{900}, {910}}, {{7}, {7}}, kSpan.range};
  engine->ReadAhead(*id, spans);
  EXPECT_TRUE(engine->Step());  // 13 tokens
  EXPECT_TRUE(engine->Step());  // 16 of 24
  EXPECT_EQ(engine->numbers().counters.ahead_tokens, 29);
  for (size_t turn = 1; turn < 6; ++turn) {
    const RecordingSink sink = Turn(engine.get(), *id, "a", turn);
    EXPECT_EQ(sink.tokens(), expected[turn].tokens());
    EXPECT_EQ(sink.stats().reread_tokens, turn == 1 ? 24 : 0);
    EXPECT_FALSE(engine->Step());  // all is kept by now
  }
  EXPECT_EQ(engine->numbers().counters.ahead_tokens, 29);
  engine->Close(*id);
  const auto again = engine->Open();
  engine->ReadAhead(*again, spans);  // it has said nothing yet
  EXPECT_FALSE(engine->Step());
  EXPECT_GE(engine->numbers().free_pages, free_pages);
}

}  // namespace
}  // namespace mooring::test
