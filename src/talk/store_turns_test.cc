// Turns, branches, forgetting and archives of the store, and finding nameless clients in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "talk/recognise.h"
#include "talk/sqlite_database.h"
#include "talk/store.h"
#include "talk/store_test_support.h"

namespace mooring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kAnswer = "An answer that tells a talk.";

RequestHistory RequestOf(const std::vector<RequestMessage>& request) {
  return RequestHistory(request);
}

TEST_F(StoreTest, ATurnComesBackWhole) {
  const ConversationInfo info = *store_->Create(kOwner, {.system = "Be brief."});
  const std::string bytes("any \xFF\x00 bytes\xED\xA0\x80", 15);
  const AcceptedTurn first =
      Turn(info, bytes, kAnswer, {.response_id = "resp_1", .sampling = "{}", .seed = UINT64_MAX});
  const AcceptedTurn second = Turn(info, "", "second");
  EXPECT_EQ(first.turn, 1);
  EXPECT_EQ(second.log_from, LogIndex{7});
  Reopen();
  const auto chain = store_->LoadChain(KeyOf(info), {.tokens = true});
  ASSERT_TRUE(chain.ok());
  ASSERT_EQ(chain->size(), 5U);
  const StoredMessage& said = (*chain)[1];
  const StoredMessage& answer = (*chain)[2];
  EXPECT_EQ((*chain)[0].role, "system");
  EXPECT_EQ(said.text, bytes);
  EXPECT_EQ(said.id, first.messages[0]);
  EXPECT_EQ(said.tokens, TokensFrom(100, 3, false));
  EXPECT_EQ(said.from, LogIndex{0});
  EXPECT_EQ(answer.id, first.answer);
  EXPECT_EQ(answer.state, MessageState::kComplete);
  EXPECT_EQ(answer.tokens, TokensFrom(200, 4, true));
  EXPECT_EQ(answer.from, LogIndex{3});
  EXPECT_EQ(answer.to, LogIndex{7});
  EXPECT_EQ(answer.seed, UINT64_MAX);
  EXPECT_EQ(answer.sampling, "{}");
  EXPECT_EQ(answer.finish_reason, "stop");
  EXPECT_EQ(answer.hash, HashMessage("assistant", kAnswer));
  EXPECT_EQ((*chain)[4].turn, 2);
  EXPECT_EQ(store_->FindMessage(KeyOf(info), first.answer)->tokens, answer.tokens);
  EXPECT_EQ(store_->FindResponse(kOwner, "resp_1")->message, first.answer);
  EXPECT_EQ(store_->FindResponse(kOwner, "").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(Now(info).log_end, LogIndex{14});
  EXPECT_EQ(Now(info).messages, 5);
  EXPECT_THAT(*store_->LoadEvents(KeyOf(info), std::nullopt, {0}),
              ElementsAre(MemoryEvent{{0}, std::string("plan of ") + kAnswer},
                          MemoryEvent{{7}, "plan of second"}));
  EXPECT_THAT(*store_->LoadEvents(KeyOf(info), std::nullopt, {1}),
              ElementsAre(MemoryEvent{{7}, "plan of second"}));
  EXPECT_EQ(ErrorText(store_->Verify()), "");
}

TEST_F(StoreTest, AnAcceptedMessageIsKeptBeforeItsAnswer) {
  const ConversationInfo info = Make("a");
  const auto accepted = store_->Accept(KeyOf(info), {.messages = {{"user", "x"}}});
  ASSERT_TRUE(accepted.ok());
  EXPECT_TRUE(Now(info).busy);
  EXPECT_EQ(store_->Accept(KeyOf(info), {.messages = {{"user", "y"}}})->kind, AcceptKind::kBusy);
  EXPECT_EQ(store_->Rewind(KeyOf(info), "").error().kind, ErrorKind::kUsage);
  EXPECT_EQ(store_->Forget(KeyOf(info), accepted->turn.answer).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(store_->Fork(KeyOf(info), accepted->turn.answer, "").error().kind, ErrorKind::kUsage);
  Reopen();  // as after the end of the process
  EXPECT_FALSE(Now(info).busy);
  const auto chain = store_->LoadChain(KeyOf(info), {});
  ASSERT_EQ(chain->size(), 2U);
  EXPECT_EQ((*chain)[1].state, MessageState::kIncomplete);
  EXPECT_EQ(store_->Finish(KeyOf(info), {.answer = accepted->turn.answer}).error().kind,
            ErrorKind::kNotFound);
  Turn(info, "y", "z");
  EXPECT_THAT(Texts(info), ElementsAre("x", "", "y", "z"));
}

TEST_F(StoreTest, ATurnThatDoesNotFitLeavesNothing) {
  const ConversationInfo info = Make("a");
  EXPECT_EQ(store_->Accept(KeyOf(info), {.answer = false}).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(store_->Accept(KeyOf(info), {.messages = {{"", "x"}}}).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(
      store_->Accept(KeyOf(info), {.after = "msg_x", .messages = {{"user", "x"}}}).error().kind,
      ErrorKind::kNotFound);
  const auto accepted = store_->Accept(KeyOf(info), {.messages = {{"user", "x"}}});
  ASSERT_TRUE(accepted.ok());
  TurnFinish finish{.answer = accepted->turn.answer, .text = "y"};
  finish.read = {{"msg_of_another", TokensFrom(1, 1, false)}};
  EXPECT_EQ(store_->Finish(KeyOf(info), finish).error().kind, ErrorKind::kUsage);
  finish.read.clear();
  finish.tokens = {.ids = {-1}, .generated = {true}};
  EXPECT_EQ(store_->Finish(KeyOf(info), finish).error().kind, ErrorKind::kUsage);
  EXPECT_THAT(Texts(info), ElementsAre("x", ""));
  finish.tokens = {};
  finish.complete = false;
  EXPECT_TRUE(store_->Finish(KeyOf(info), finish).ok());
  EXPECT_EQ(store_->Finish(KeyOf(info), finish).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(store_->LoadChain(KeyOf(info), {})->back().state, MessageState::kIncomplete);
}

TEST_F(StoreTest, LostUpdatesAndRepeatsAreSeen) {
  const ConversationInfo info = Make("a");
  Turn(info, "x", "y");
  EXPECT_EQ(store_->Accept(KeyOf(info), {.if_turn = 0, .messages = {{"user", "z"}}})->kind,
            AcceptKind::kChanged);
  const TurnStart start{.if_turn = 1,
                        .messages = {{"user", "z"}},
                        .idempotency_key = "key",
                        .request_digest = "digest"};
  const auto accepted = store_->Accept(KeyOf(info), start);
  ASSERT_EQ(accepted->kind, AcceptKind::kAccepted);
  auto again = store_->Accept(KeyOf(info), start);
  ASSERT_EQ(again->kind, AcceptKind::kRepeated);
  EXPECT_EQ(again->earlier->state, MessageState::kInProgress);
  ASSERT_TRUE(store_->Finish(KeyOf(info), {.answer = accepted->turn.answer, .reply = "body"}).ok());
  Reopen();
  again = store_->Accept(KeyOf(Make("other")), start);
  ASSERT_EQ(again->kind, AcceptKind::kRepeated);
  EXPECT_EQ(again->earlier->reply, "body");
  EXPECT_EQ(again->earlier->request_digest, "digest");
  EXPECT_EQ(again->earlier->conversation, info.id);
  EXPECT_EQ(again->earlier->answer, accepted->turn.answer);
  EXPECT_EQ(Now(info).turns, 2);
  now_ms_ += int64_t{24} * 3600 * 1000;
  EXPECT_FALSE(store_->FindReply(kOwner, "key")->has_value());
  EXPECT_EQ(
      store_->Accept(KeyOf(info), {.messages = {{"user", "z"}}, .idempotency_key = "key"})->kind,
      AcceptKind::kAccepted);
}

// What memory did for a message is the message's: another answer to it has it as well.
TEST_F(StoreTest, AnotherAnswerSharesTheEventsOfItsQuestion) {
  const ConversationInfo info = Make("");
  const AcceptedTurn first = Turn(info, "1", "one");
  const auto again = store_->Accept(KeyOf(info), {.after = first.messages[0]});
  ASSERT_TRUE(again.ok()) << again.error().Message();
  EXPECT_TRUE(again->turn.forked);
  EXPECT_THAT(*store_->LoadEvents(KeyOf(info), std::nullopt, {0}),
              ElementsAre(MemoryEvent{{0}, "plan of one"}));
  // One that belongs to no message of the turn is a fault of the caller's.
  TurnFinish finish{.answer = again->turn.answer, .text = "b", .finish_reason = "stop"};
  finish.tokens = TokensFrom(200, 4, true);
  finish.events = {{{1000}, "plan"}};
  EXPECT_EQ(store_->Finish(KeyOf(info), finish).error().kind, ErrorKind::kUsage);
}

TEST_F(StoreTest, AStoreOfTheFirstVersionIsBroughtUp) {
  const ConversationInfo info = Make("");
  Turn(info, "1", "one");
  store_.reset();
  {
    auto old = SqliteDatabase::Open(folder_.path() / "state" / Store::kFileName, "");
    ASSERT_TRUE(old.ok()) << old.error().Message();
    ASSERT_EQ(ErrorText(old->Execute("DROP INDEX messages_by_place; PRAGMA user_version=1")), "");
  }
  for (int i = 0; i < 2; ++i) {
    Reopen();
    EXPECT_EQ(store_->MessageAt(KeyOf(info), {4})->text, "one");
    EXPECT_EQ(ErrorText(store_->Verify()), "");
  }
  store_.reset();
  auto now = SqliteDatabase::Open(folder_.path() / "state" / Store::kFileName, "");
  ASSERT_TRUE(now.ok());
  EXPECT_FALSE(now->Execute("CREATE INDEX messages_by_place ON messages (log_from)").ok());
}

TEST_F(StoreTest, BranchesStayReachable) {
  const ConversationInfo info = *store_->Create(kOwner, {.system = "A"});
  const AcceptedTurn one = Turn(info, "1", "one");
  Turn(info, "2", "two", {.system = "B"});
  EXPECT_EQ(Now(info).system, "B");
  const BranchId old_branch = Now(info).branch;
  const auto rewound = store_->Rewind(KeyOf(info), one.answer);
  ASSERT_TRUE(rewound.ok());
  EXPECT_TRUE(rewound->head);
  EXPECT_EQ(rewound->turns, 1);
  EXPECT_EQ(Now(info).system, "A");
  EXPECT_EQ(Now(info).log_end, LogIndex{7});
  Turn(info, "2b", "two b");
  EXPECT_THAT(Texts(info), ElementsAre("A", "1", "one", "2b", "two b"));
  EXPECT_THAT(Texts(info, {.branch = old_branch}), ElementsAre("A", "1", "one", "B", "2", "two"));
  EXPECT_THAT(*store_->LoadEvents(KeyOf(info), old_branch, {7}),
              ElementsAre(MemoryEvent{{7}, "plan of two"}));
  // The same places hold other messages on each branch.
  EXPECT_EQ(store_->MessageAt(KeyOf(info), {6})->text, "one");
  EXPECT_EQ(store_->MessageAt(KeyOf(info), {7})->text, "2b");
  EXPECT_EQ(store_->MessageAt(KeyOf(info), {13})->text, "two b");
  EXPECT_EQ(store_->MessageAt(KeyOf(info), {14}).error().kind, ErrorKind::kNotFound);
  const AcceptedTurn edited = Turn(info, "1c", "one c", {.after = ""});
  EXPECT_TRUE(edited.forked);
  EXPECT_EQ(edited.log_from, LogIndex{0});
  EXPECT_THAT(Texts(info), ElementsAre("1c", "one c"));
  EXPECT_EQ(Now(info).system, std::nullopt);
  EXPECT_TRUE(store_->SwitchTo(KeyOf(info), old_branch).ok());
  const AcceptedTurn more = Turn(info, "3", "three");
  EXPECT_FALSE(more.forked);
  EXPECT_EQ(more.branch, old_branch);
  // Behind another branch's tip that branch goes on.
  EXPECT_FALSE(Turn(info, "d", "e", {.after = edited.answer}).forked);
  EXPECT_EQ(store_->Branches(KeyOf(info))->size(), 3U);
  // An answer once more: nothing new is said.
  const auto again = store_->Accept(KeyOf(info), {.after = one.messages[0]});
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->turn.turn, 1);
  EXPECT_EQ(again->turn.log_from, LogIndex{3});
  EXPECT_TRUE(store_->Finish(KeyOf(info), {.answer = again->turn.answer, .text = "uno"}).ok());
  EXPECT_THAT(Texts(info), ElementsAre("A", "1", "uno"));
  EXPECT_EQ(ErrorText(store_->Verify()), "");
}

TEST_F(StoreTest, ForgottenTextIsGoneAndItsPlaceIsKnown) {
  const ConversationInfo info = Make("a");
  const AcceptedTurn one = Turn(info, "The code is 4821-secret.", "I keep 4821-secret, I do.",
                                {.idempotency_key = "key"});
  const AcceptedTurn two = Turn(info, "Thanks", "You are welcome, any time.");
  const BranchId old_branch = two.branch;
  ASSERT_TRUE(store_->Forget(KeyOf(info), one.messages[0]).ok());
  ASSERT_TRUE(store_->Forget(KeyOf(info), one.answer).ok());
  const std::filesystem::path file = folder_.path() / "state" / Store::kFileName;
  EXPECT_EQ((ContentOf(file) + ContentOf(file.string() + "-wal")).find("4821-secret"),
            std::string::npos);
  const auto chain = store_->LoadChain(KeyOf(info), {.tokens = true});
  ASSERT_EQ(chain->size(), 4U);
  EXPECT_TRUE((*chain)[0].forgotten);
  EXPECT_EQ((*chain)[0].text, "");
  EXPECT_THAT((*chain)[0].tokens.ids, IsEmpty());
  EXPECT_EQ((*chain)[0].to, LogIndex{3});
  EXPECT_EQ((*chain)[2].from, LogIndex{7});
  EXPECT_THAT(*store_->LoadEvents(KeyOf(info), old_branch, {0}), IsEmpty());
  EXPECT_FALSE(store_->FindReply(kOwner, "key")->has_value());
  EXPECT_EQ(ErrorText(store_->Verify()), "");
  // A client that resends it is known, and nothing of it is new.
  const auto found = Recognise(store_.get(), kOwner,
                               RequestOf({{"user", "The code is 4821-secret."},
                                          {"assistant", "I keep 4821-secret, I do."},
                                          {"user", "Thanks"},
                                          {"assistant", "You are welcome, any time."},
                                          {"user", "Bye"}}));
  ASSERT_TRUE(found.ok() && found->has_value());
  EXPECT_EQ((*found)->verdict.kind, MatchKind::kExact);
  EXPECT_EQ((*found)->verdict.first_new, 4U);
}

TEST_F(StoreTest, ForgottenInstructionsHoldNoMore) {
  const ConversationInfo info = *store_->Create(kOwner, {.system = "Be brief."});
  ASSERT_TRUE(store_->Forget(KeyOf(info), info.tip).ok());
  EXPECT_EQ(Now(info).system, std::nullopt);
  // A client that resends them does not bring them back.
  const auto aligned =
      Align(store_.get(), kOwner, Now(info), RequestOf({{"system", "Be brief."}, {"user", "Hi"}}));
  EXPECT_EQ(aligned->verdict.instructions, std::nullopt);
}

void ExpectSameChains(const std::vector<StoredMessage>& a, std::vector<StoredMessage> b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_EQ(a[i], b[i]) << i;
}

TEST_F(StoreTest, ArchivesMoveAllBranches) {
  const ConversationInfo info = *store_->Create(kOwner, {.name = "a", .model = "m", .system = "S"});
  const AcceptedTurn one = Turn(info, "1", "one", {.response_id = "resp_1"});
  const AcceptedTurn two = Turn(info, "2", "two");
  Turn(info, "2b", "two b", {.after = one.answer});
  ASSERT_TRUE(store_->Forget(KeyOf(info), two.messages[0]).ok());
  const auto archive = store_->Export(KeyOf(info));
  ASSERT_TRUE(archive.ok());
  EXPECT_EQ(archive->branches.size(), 2U);
  EXPECT_EQ(archive->head, 1U);
  // Beside the old one only under another name and id; in another's hands, with the id refused.
  EXPECT_EQ(store_->Import(kOwner, *archive).error().kind, ErrorKind::kUsage);
  const auto twin = store_->Import("you", *archive);
  ASSERT_TRUE(twin.ok()) << twin.error().Message();
  EXPECT_NE(twin->id, info.id);
  ASSERT_TRUE(store_->Delete(KeyOf(info)).ok());
  const auto back = store_->Import(kOwner, *archive);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->id, info.id);
  EXPECT_EQ(back->name, "a");
  EXPECT_EQ(ErrorText(store_->Verify()), "");
  const auto branches = store_->Branches(KeyOf(*back));
  const auto there = store_->Branches({"you", twin->id});
  for (size_t i = 0; i < 2; ++i) {
    ExpectSameChains(
        *store_->LoadChain(KeyOf(*back), {.branch = (*branches)[i].id, .tokens = true}),
        *store_->LoadChain({"you", twin->id}, {.branch = (*there)[i].id, .tokens = true}));
  }
  EXPECT_THAT(Texts(*back), ElementsAre("S", "1", "one", "2b", "two b"));
  EXPECT_THAT(Texts(*back, {.branch = (*branches)[0].id}), ElementsAre("S", "1", "one", "", "two"));
  EXPECT_EQ(store_->LoadEvents(KeyOf(*back), std::nullopt, {0})->size(), 2U);
  EXPECT_EQ(store_->FindResponse(kOwner, "resp_1")->conversation, back->id);
}

TEST_F(StoreTest, AnArchiveThatDoesNotHoldTogetherIsRefused) {
  const ConversationInfo info = Make("");
  Turn(info, "1", "one");
  const ConversationArchive good = *store_->Export(KeyOf(info));
  const auto refused = [&](const auto& spoil) {
    ConversationArchive bad = good;
    spoil(&bad);
    const auto imported = store_->Import(kOwner, bad);
    return !imported.ok() && imported.error().kind == ErrorKind::kUsage;
  };
  EXPECT_FALSE(refused([](ConversationArchive*) {}));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[0].parent = 0; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].parent = 7; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].parent.reset(); }));
  EXPECT_TRUE(
      refused([](auto* bad) { bad->messages[1].message.id = bad->messages[0].message.id; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].message.role.clear(); }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].message.tokens.ids.pop_back(); }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].message.tokens.ids[0] = -5; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].message.to = {2}; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->messages[1].message.forgotten = true; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->branches[0].tip = 9; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->branches[0].tip = 0; }));
  EXPECT_TRUE(refused([](auto* bad) { bad->branches.clear(); }));
  EXPECT_TRUE(refused([](auto* bad) { bad->head = 1; }));
  EXPECT_EQ(store_->Count()->conversations, 2);
}

TEST_F(StoreTest, AForkIsAConversationOfItsOwn) {
  const ConversationInfo info = *store_->Create(kOwner, {.name = "a", .system = "S"});
  const AcceptedTurn one = Turn(info, "1", "one", {.response_id = "resp_1"});
  Turn(info, "2", "two");
  const auto fork = store_->Fork(KeyOf(info), one.answer, "b");
  ASSERT_TRUE(fork.ok());
  EXPECT_EQ(fork->system, "S");
  EXPECT_THAT(Texts(*fork), ElementsAre("S", "1", "one"));
  EXPECT_EQ(store_->LoadEvents(KeyOf(*fork), std::nullopt, {0})->size(), 1U);
  ASSERT_TRUE(store_->Delete(KeyOf(info)).ok());
  EXPECT_EQ(Turn(*fork, "3", "three").log_from, LogIndex{7});
  EXPECT_EQ(store_->FindResponse(kOwner, "resp_1").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(ErrorText(store_->Verify()), "");
}

TEST_F(StoreTest, NamelessClientsAreRecognised) {
  const ConversationInfo older = Make(""), newer = Make(""), other = Make("");
  Turn(older, "Hello", kAnswer);
  const AcceptedTurn first = Turn(newer, "Hello", kAnswer, {.system = "S"});
  const AcceptedTurn more = Turn(newer, "And?", "Another long answer here.");
  Turn(other, "Hello", "Quite another long answer.");
  const auto find = [&](const std::vector<RequestMessage>& request) {
    const auto found = Recognise(store_.get(), kOwner, RequestOf(request));
    EXPECT_TRUE(found.ok());
    return *found;
  };
  std::vector<RequestMessage> request = {{"user", "Hello"}, {"assistant", kAnswer}, {"user", "x"}};
  // At the end of a talk rather than in the middle of a newer one.
  auto found = find(request);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->conversation.id, older.id);
  EXPECT_EQ(found->verdict.kind, MatchKind::kExact);
  // Also when the newer one was asked the same already.
  request.back().text = "And?";
  found = find(request);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->conversation.id, older.id);
  EXPECT_EQ(found->verdict.kind, MatchKind::kExact);
  ASSERT_TRUE(store_->Delete(KeyOf(older)).ok());
  request.back().text = "x";
  found = find(request);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->conversation.id, newer.id);
  EXPECT_EQ(found->verdict.kind, MatchKind::kFork);
  EXPECT_EQ(found->after, first.answer);
  // The turn that follows moves the head to a branch of its own; the old one is still known.
  Turn(newer, "x", "A third answer, long enough.", {.after = found->after});
  found = find({{"user", "And?"}, {"assistant", "Another long answer here."}, {"user", "y"}});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->verdict.kind, MatchKind::kSuffix);
  EXPECT_EQ(found->after, more.answer);
  EXPECT_FALSE(find({{"user", "Bye"}, {"assistant", kAnswer}, {"user", "x"}}));
  EXPECT_FALSE(find({{"user", "Hello"}}));
}

TEST_F(StoreTest, NamedClientsAreAligned) {
  const ConversationInfo info = *store_->Create(kOwner, {.name = "a", .system = "S"});
  const AcceptedTurn one = Turn(info, "Hello", kAnswer);
  const auto align = [&](const std::vector<RequestMessage>& request) {
    return *Align(store_.get(), kOwner, Now(info), RequestOf(request));
  };
  EXPECT_EQ(align({{"user", "Hello"}}).verdict.kind, MatchKind::kNew);
  EXPECT_EQ(align({{"system", "T"}, {"user", "Hello"}}).verdict.instructions, "T");
  const Recognised whole =
      align({{"system", "S"}, {"user", "Hello"}, {"assistant", kAnswer}, {"user", "More"}});
  EXPECT_EQ(whole.verdict.kind, MatchKind::kExact);
  EXPECT_EQ(whole.verdict.instructions, std::nullopt);
  EXPECT_EQ(whole.verdict.first_new, 3U);
  EXPECT_EQ(whole.after, std::nullopt);
  Turn(info, "More", "More it is.");
  const Recognised edited = align({{"user", "Hello"}, {"assistant", kAnswer}, {"user", "Less"}});
  EXPECT_EQ(edited.verdict.kind, MatchKind::kFork);
  EXPECT_EQ(edited.after, one.answer);
}

}  // namespace
}  // namespace mooring
