// One conversation: its log, its window, and the turn that is under way. Its past never ends; its
// present is bounded.
//
// Invariant: the window holds the first window.next() tokens of the log; the rest is pending.
// Between turns at most one token is pending: the last one sampled.
//
// Thread rule: the engine's thread only. Others name a conversation by its ConversationId.
#ifndef MOORING_ENGINE_CONVERSATION_H_
#define MOORING_ENGINE_CONVERSATION_H_

#include <array>
#include <cstdint>
#include <optional>

#include "engine/token_log.h"
#include "engine/turn.h"
#include "memory/policy.h"
#include "memory/window.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace mooring {

using ConversationId = uint64_t;

// A turn that is under way.
struct RunningTurn {
  TurnRequest request;
  Sink* sink = nullptr;
  TurnStats stats;
  double started_seconds = 0.0;
  double first_token_seconds = 0.0;
  Detokenizer detokenizer;
  StopMatcher stop;
  int64_t text_bytes = 0;   // of text that the tokens gave
  int64_t shown_bytes = 0;  // of it, released to the sink
  // Where the text of each of the last tokens begins, by number of the token modulo the size.
  std::array<int64_t, kRewindSlots> token_starts = {};
};

class Conversation {
 public:
  Conversation(ConversationId id, const Policy* policy, Window window)
      : id_(id), policy_(policy), window_(std::move(window)) {}

  ConversationId id() const { return id_; }
  const Policy& policy() const { return *policy_; }
  const TokenLog& log() const { return log_; }
  const Window& window() const { return window_; }
  int64_t pending_rows() const { return log_.end() - window_.next(); }
  bool busy() const { return turn_.has_value(); }

 private:
  friend class Engine;

  ConversationId id_;
  const Policy* policy_;
  TokenLog log_;
  Window window_;
  std::optional<RunningTurn> turn_;
};

}  // namespace mooring

#endif  // MOORING_ENGINE_CONVERSATION_H_
