#include "talk/store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <set>

#include "base/random.h"
#include "talk/conversation_names.h"
#include "talk/store_test_support.h"
#include "talk/token_bytes.h"

namespace mooring {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(ConversationNamesTest, TellIdsFromNames) {
  const std::string id = *MakeId(kConversationPrefix);
  EXPECT_EQ(id.size(), 5U + 26U);
  EXPECT_EQ(*KindOfReference(id), ReferenceKind::kId);
  EXPECT_EQ(*KindOfReference("conv_../x"), ReferenceKind::kId);
  EXPECT_EQ(*KindOfReference("customer:4711"), ReferenceKind::kName);
  for (const char* bad : {"", "a b", "a/b", "caf\xC3\xA9", "a\n"}) {
    EXPECT_FALSE(KindOfReference(bad).ok()) << bad;
  }
  EXPECT_TRUE(CheckName(std::string(128, 'a')).ok());
  EXPECT_FALSE(CheckName(std::string(129, 'a')).ok());
  EXPECT_FALSE(CheckName("conv_x").ok());
  std::set<std::string> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(*MakeId("msg_"));
  EXPECT_EQ(ids.size(), 1000U);
}

TEST(TokenBytesTest, ComeBack) {
  LogTokens tokens{.ids = {0, 1, 63, 64, 49151, TokenLog::kMaxToken},
                   .generated = {true, false, true, false, true, true}};
  EXPECT_EQ(*ReadTokenBytes(TokenBytes(tokens)), tokens);
  EXPECT_FALSE(ReadTokenBytes("\xFF").ok());
  EXPECT_FALSE(ReadTokenBytes("\xFF\xFF\xFF\xFF\xFF\x01").ok());
  tokens.ids[0] = -1;
  EXPECT_FALSE(CheckTokens(tokens).ok());
  tokens.ids.pop_back();
  EXPECT_FALSE(CheckTokens(tokens).ok());
}

TEST_F(StoreTest, FilesAreForTheirOwnerOnly) {
  const auto mode_of = [](const std::filesystem::path& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
    return info.st_mode & 0777U;
  };
  Make("a");
  const std::filesystem::path state = folder_.path() / "state";
  EXPECT_EQ(mode_of(state), 0700U);
  EXPECT_EQ(mode_of(state / Store::kFileName), 0600U);
  EXPECT_EQ(mode_of((state / Store::kFileName).string() + "-wal"), 0600U);
  EXPECT_EQ(mode_of(state / "lock"), 0600U);
}

TEST_F(StoreTest, ConversationsAreFoundByIdAndName) {
  const auto made = store_->Create(
      kOwner, {.name = "dog", .model = "m", .identity = "i", .settings = "{}", .system = "Be"});
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->system, "Be");
  EXPECT_EQ(made->messages, 1);
  EXPECT_EQ(made->turns, 0);
  Reopen();
  const auto by_id = store_->Find(kOwner, made->id);
  const auto by_name = store_->Find(kOwner, "dog");
  ASSERT_TRUE(by_id.ok() && by_name.ok());
  EXPECT_EQ(by_id->id, made->id);
  EXPECT_EQ(by_name->id, made->id);
  EXPECT_EQ(by_name->identity, "i");
  EXPECT_EQ(by_name->settings, "{}");
  EXPECT_EQ(store_->Find(kOwner, "cat").error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(store_->Find(kOwner, "no name").error().kind, ErrorKind::kUsage);
  EXPECT_EQ(store_->FindOrCreate(kOwner, "dog", {})->id, made->id);
  EXPECT_NE(store_->FindOrCreate(kOwner, "cat", {})->id, made->id);
  EXPECT_EQ(store_->FindOrCreate(kOwner, *MakeId("conv_"), {}).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(store_->Create(kOwner, {.name = "dog"}).error().kind, ErrorKind::kUsage);
}

TEST_F(StoreTest, NamesMove) {
  const ConversationInfo a = Make("a"), b = Make("b"), none = Make("");
  EXPECT_EQ(store_->Rename(KeyOf(a), "b").error().kind, ErrorKind::kUsage);
  EXPECT_EQ(store_->Rename(KeyOf(a), "conv_a").error().kind, ErrorKind::kUsage);
  EXPECT_TRUE(store_->Rename(KeyOf(a), "c").ok());
  EXPECT_TRUE(store_->Rename(KeyOf(b), "a").ok());
  EXPECT_TRUE(store_->Rename(KeyOf(a), "").ok());
  EXPECT_EQ(store_->Find(kOwner, "a")->id, b.id);
  EXPECT_EQ(Now(a).name, "");
  EXPECT_TRUE(store_->SetModel(KeyOf(a), "other", "hash").ok());
  EXPECT_TRUE(store_->SetSettings(KeyOf(a), "s").ok());
  EXPECT_EQ(Now(a).identity, "hash");
  EXPECT_EQ(Now(a).settings, "s");
}

TEST_F(StoreTest, ListsTheNewestFirstInPages) {
  std::vector<ConversationInfo> made;
  for (const char* name : {"n0", "n1", "n2", "n3", "n4", "n5", "n6"}) made.push_back(Make(name));
  Turn(made[2], "x", "y");
  std::vector<std::string> names;
  ListOptions options{.limit = 3};
  for (;;) {
    const auto page = store_->List(kOwner, options);
    ASSERT_TRUE(page.ok());
    if (page->empty()) break;
    for (const ConversationInfo& info : *page) names.push_back(info.name);
    options.after = page->back().id;
  }
  EXPECT_THAT(names, ElementsAre("n2", "n6", "n5", "n4", "n3", "n1", "n0"));
  EXPECT_EQ(store_->List(kOwner, {.limit = 0}).error().kind, ErrorKind::kUsage);
  EXPECT_EQ(store_->List(kOwner, {.after = "conv_x"}).error().kind, ErrorKind::kNotFound);
  EXPECT_THAT(*store_->List("you", {}), IsEmpty());
}

// Every call that names a conversation, with the right words but the wrong owner.
TEST_F(StoreTest, NothingIsFoundAcrossOwners) {
  const ConversationInfo mine = Make("dog");
  TurnStart start{.response_id = "resp_1", .idempotency_key = "key"};
  const AcceptedTurn turn = Turn(mine, "Hello there", "An answer that tells a talk.", start);
  const ConversationKey key{"you", mine.id};
  const auto found = [](const auto& result) {
    return result.ok() || result.error().kind != ErrorKind::kNotFound;
  };
  EXPECT_FALSE(found(store_->Find("you", mine.id)));
  EXPECT_FALSE(found(store_->Find("you", "dog")));
  EXPECT_FALSE(found(store_->FindOrCreate("you", mine.id, {})));
  EXPECT_FALSE(found(store_->List("you", {.after = mine.id})));
  EXPECT_FALSE(found(store_->Rename(key, "cat")));
  EXPECT_FALSE(found(store_->SetModel(key, "", "")));
  EXPECT_FALSE(found(store_->SetSettings(key, "")));
  EXPECT_FALSE(found(store_->Delete(key)));
  EXPECT_FALSE(found(store_->Accept(key, {.messages = {{"user", "x"}}})));
  EXPECT_FALSE(found(store_->Finish(key, {.answer = turn.answer})));
  EXPECT_FALSE(found(store_->LoadChain(key, {})));
  EXPECT_FALSE(found(store_->LoadChain(key, {.branch = turn.branch})));
  EXPECT_FALSE(found(store_->FindMessage(key, turn.answer)));
  EXPECT_FALSE(found(store_->FindResponse("you", "resp_1")));
  EXPECT_FALSE(found(store_->LoadEvents(key, std::nullopt, {0})));
  EXPECT_FALSE(found(store_->Forget(key, turn.answer)));
  EXPECT_FALSE(found(store_->Branches(key)));
  EXPECT_FALSE(found(store_->Rewind(key, "")));
  EXPECT_FALSE(found(store_->SwitchTo(key, turn.branch)));
  EXPECT_FALSE(found(store_->Fork(key, turn.answer, "")));
  EXPECT_FALSE(found(store_->Export(key)));
  EXPECT_FALSE(store_->FindReply("you", "key")->has_value());
  const HistoryPair pair{HashMessage("user", "Hello there"),
                         HashMessage("assistant", "An answer that tells a talk.")};
  EXPECT_THAT(*store_->FindCandidates("you", pair), IsEmpty());
  EXPECT_EQ(store_->FindCandidates(kOwner, pair)->size(), 1U);
  // Messages and branches of another conversation of the same owner are as unknown.
  const ConversationInfo other = Make("other");
  EXPECT_FALSE(found(store_->FindMessage(KeyOf(other), turn.answer)));
  EXPECT_FALSE(found(store_->Forget(KeyOf(other), turn.answer)));
  EXPECT_FALSE(found(store_->Rewind(KeyOf(other), turn.answer)));
  EXPECT_FALSE(found(store_->SwitchTo(KeyOf(other), turn.branch)));
  EXPECT_FALSE(found(store_->LoadChain(KeyOf(other), {.branch = turn.branch})));
  EXPECT_FALSE(
      found(store_->Accept(KeyOf(other), {.after = turn.answer, .messages = {{"user", "x"}}})));
  // The error is the same as for what never was, and nothing has changed.
  EXPECT_EQ(store_->Find("you", mine.id).error().Message(),
            store_->Find("you", *MakeId("conv_")).error().Message());
  EXPECT_EQ(Now(mine).turns, 1);
  // The same name is another conversation there.
  EXPECT_NE(store_->FindOrCreate("you", "dog", {})->id, mine.id);
}

TEST_F(StoreTest, DeletedTextLeavesTheFiles) {
  const ConversationInfo info = Make("a"), other = Make("b");
  const std::string secret = "the-gate-code-is-4821 " + std::string(20000, 's') + " end-of-secret";
  Turn(info, secret, "kept-answer-canary");
  Turn(other, "another", "another answer");
  const std::filesystem::path file = folder_.path() / "state" / Store::kFileName;
  const auto on_disk = [&](const std::string& text) {
    return (ContentOf(file) + ContentOf(file.string() + "-wal")).find(text) != std::string::npos;
  };
  EXPECT_TRUE(on_disk("the-gate-code-is-4821"));
  ASSERT_TRUE(store_->Delete(KeyOf(info)).ok());
  EXPECT_FALSE(on_disk("the-gate-code-is-4821"));
  EXPECT_FALSE(on_disk("ssssssss"));
  EXPECT_FALSE(on_disk("end-of-secret"));
  EXPECT_FALSE(on_disk("kept-answer-canary"));
  EXPECT_EQ(store_->Find(kOwner, info.id).error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(on_disk("another answer"));
  EXPECT_EQ(store_->Count()->messages, 2);
  EXPECT_EQ(ErrorText(store_->Verify()), "");
}

TEST_F(StoreTest, UntouchedConversationsGo) {
  const ConversationInfo old = Make("old"), busy = Make("busy");
  ASSERT_TRUE(store_->Accept(KeyOf(busy), {.messages = {{"user", "x"}}}).ok());
  const int64_t before = now_ms_ + 1000;
  now_ms_ = before;
  const ConversationInfo fresh = Make("fresh");
  EXPECT_EQ(*store_->DeleteUntouched(before), 1);
  EXPECT_FALSE(store_->Find(kOwner, old.id).ok());
  EXPECT_TRUE(store_->Find(kOwner, busy.id).ok());
  EXPECT_TRUE(store_->Find(kOwner, fresh.id).ok());
}

TEST_F(StoreTest, AGroupIsOneTransaction) {
  ConversationInfo a;
  ASSERT_TRUE(store_
                  ->Group([&] {
                    a = Make("a");
                    EXPECT_FALSE(store_->Create(kOwner, {.name = "a"}).ok());  // undoes only itself
                    Turn(a, "x", "y");
                  })
                  .ok());
  Reopen();
  EXPECT_THAT(Texts(a), ElementsAre("x", "y"));
}

TEST_F(StoreTest, CountsAndBacksUp) {
  const ConversationInfo a = Make("a");
  Turn(a, "x", "y");
  const auto counts = store_->Count();
  ASSERT_TRUE(counts.ok());
  EXPECT_EQ(counts->conversations, 1);
  EXPECT_EQ(counts->branches, 1);
  EXPECT_EQ(counts->messages, 2);
  EXPECT_GT(counts->file_bytes + counts->log_bytes, 4096);
  const std::filesystem::path state = folder_.path() / "copy";
  std::filesystem::create_directories(state);
  const std::filesystem::path copy = state / Store::kFileName;
  ASSERT_EQ(ErrorText(store_->BackUp(copy)), "");
  EXPECT_FALSE(store_->BackUp(copy).ok());  // never over another file
  struct stat info {};
  ASSERT_EQ(::stat(copy.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  const auto again = Store::Open({.folder = state});
  ASSERT_TRUE(again.ok()) << again.error().Message();
  EXPECT_EQ((*again)->LoadChain({kOwner, a.id}, {.tokens = true})->size(), 2U);
  EXPECT_EQ(ErrorText((*again)->Verify()), "");
}

}  // namespace
}  // namespace mooring
