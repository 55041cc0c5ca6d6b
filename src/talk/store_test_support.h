// What the store's tests share: a store in a fresh folder with a clock of its own, and turns by the
// line.
//
// Thread rule: one thread.
#ifndef MOORING_TALK_STORE_TEST_SUPPORT_H_
#define MOORING_TALK_STORE_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/test_folder.h"
#include "talk/store.h"

namespace mooring {

constexpr const char* kOwner = "me";

inline LogTokens TokensFrom(TokenId first, size_t count, bool generated) {
  LogTokens tokens;
  for (size_t i = 0; i < count; ++i) {
    tokens.ids.push_back(first + static_cast<TokenId>(i));
    tokens.generated.push_back(generated);
  }
  return tokens;
}

inline std::string ErrorText(const Status& status) {
  return status.ok() ? "" : status.error().Message();
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() { Reopen(); }

  void Reopen() {
    store_.reset();
    Result<std::unique_ptr<Store>> store =
        Store::Open({.folder = folder_.path() / "state", .now_ms = [this] { return ++now_ms_; }});
    ASSERT_TRUE(store.ok()) << store.error().Message();
    store_ = std::move(store).value();
  }

  ConversationKey KeyOf(const ConversationInfo& info) const { return {kOwner, info.id}; }

  // A turn whole: three tokens per message read, four per answer.
  AcceptedTurn Turn(const ConversationInfo& info, const std::string& text,
                    const std::string& answer, TurnStart start = {}) {
    start.messages.push_back({"user", text});
    const Result<Acceptance> accepted = store_->Accept(KeyOf(info), start);
    EXPECT_TRUE(accepted.ok()) << accepted.error().Message();
    EXPECT_EQ(accepted->kind, AcceptKind::kAccepted);
    AcceptedTurn turn = accepted->turn;
    TurnFinish finish{.answer = turn.answer, .text = answer, .finish_reason = "stop"};
    for (const std::string& id : turn.messages) {
      finish.read.push_back({id, TokensFrom(100, 3, false)});
    }
    finish.tokens = TokensFrom(200, 4, true);
    finish.events = {{turn.log_from, "plan of " + answer}};
    EXPECT_EQ(ErrorText(store_->Finish(KeyOf(info), finish)), "");
    return turn;
  }

  std::vector<std::string> Texts(const ConversationInfo& info, ChainOptions options = {}) {
    const auto chain = store_->LoadChain(KeyOf(info), options);
    EXPECT_TRUE(chain.ok()) << chain.error().Message();
    std::vector<std::string> texts;
    for (const StoredMessage& message : *chain) texts.push_back(message.text);
    return texts;
  }

  ConversationInfo Make(const std::string& name) {
    const auto made = store_->Create(kOwner, {.name = name});
    EXPECT_TRUE(made.ok()) << made.error().Message();
    return *made;
  }
  ConversationInfo Now(const ConversationInfo& info) { return *store_->Find(kOwner, info.id); }

  TestFolder folder_;
  int64_t now_ms_ = 1'000'000;
  std::unique_ptr<Store> store_;
};

}  // namespace mooring

#endif  // MOORING_TALK_STORE_TEST_SUPPORT_H_
