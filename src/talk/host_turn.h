// A turn of the host from its order to its end, for the host's own files.
//
// Thread rule: the store's thread has it until it is accepted, then the engine's, which gives it
// back to be finished. Only `cancelled` is for any thread.
#ifndef MOORING_TALK_HOST_TURN_H_
#define MOORING_TALK_HOST_TURN_H_

#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "talk/host.h"
#include "talk/turn_text.h"

namespace mooring {

using Refused = std::optional<std::pair<Refusal, Error>>;

// What the store said, in a caller's terms.
Refused Refuse(const Error& error);

class Host::Turn : public Sink {
 public:
  Turn(TurnOrder wanted, std::shared_ptr<TurnListener> who)
      : order(std::move(wanted)), listener(std::move(who)) {}

  bool kept() const { return !accepted.conversation.empty(); }
  void OnText(std::string_view text) override {
    answer += text;
    listener->OnText(text);
  }
  void OnToken(const SampledToken& token) override { listener->OnToken(token); }
  void OnLogits(LogIndex /*index*/, std::span<const float> logits) override {
    listener->OnLogits(logits);
  }
  void OnRecall(std::span<const RecalledSpan> recalled) override {
    held.assign(recalled.begin(), recalled.end());
  }
  void OnEnd(TurnEnd end, const TurnStats& stats) override {
    result.end = end;
    result.stats = stats;
    ended = true;
  }

  TurnOrder order;
  std::shared_ptr<TurnListener> listener;
  const double ordered_seconds = MonotonicSeconds();
  TurnAccepted accepted;
  TurnResult result;
  std::atomic<bool> cancelled = false;

  // Of the store: where the turn begins, and what is to be said there.
  std::string tip;  // the last message before it
  LogIndex log_from = {};
  std::vector<ChatMessage> messages;
  std::vector<std::string> message_ids;  // of `messages`; empty for one of an earlier turn

  // A log read from the store, for a conversation that is not in the engine.
  bool loaded = false;
  std::string spoken_tip;
  TokenLog log;
  PlanJournal journal;
  std::string snapshot;
  std::optional<ResidentMemory> memory;
  TalkPlace place;
  std::vector<ChatMessage> unread;  // earlier messages whose tokens the model has not seen

  Resident* resident = nullptr;
  std::vector<TurnSpan> spans;
  std::vector<FoundSpan> found;    // for its message
  std::vector<RecalledSpan> held;  // in the window when the message began
  std::string answer;
  bool ended = false;
};

}  // namespace mooring

#endif  // MOORING_TALK_HOST_TURN_H_
