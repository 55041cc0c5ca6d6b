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
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan_journal.h"
#include "engine/token_log.h"
#include "engine/turn.h"
#include "memory/policy.h"
#include "memory/window.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"

namespace mooring {

using ConversationId = uint64_t;

// A span that is being read again: for a message that waits for it, or ahead.
struct Reread {
  OfferedSpan span;
  Window window;  // the anchors and what was read of the span

  // The token that is read next, and how many are left from it on.
  LogIndex next() const { return span.range.from + (window.next().value - window.shape().anchors); }
  int64_t pending() const { return span.range.to - next(); }
};

// A turn that is under way.
struct RunningTurn {
  TurnRequest request;
  Sink* sink = nullptr;
  LogIndex message;  // where request.tokens begin in the log
  TurnStats stats;
  double started_seconds = 0.0;
  double first_token_seconds = 0.0;
  Detokenizer detokenizer;
  StopMatcher stop;
  std::vector<Reread> rereads = {};  // until they land
  bool keeps_prefix = false;         // once all is read, others may begin with the same pages
  int64_t text_bytes = 0;            // of text that the tokens gave
  int64_t shown_bytes = 0;           // of it, released to the sink
  // Where the text of each of the last tokens begins, by number of the token modulo the size.
  std::array<int64_t, kRewindSlots> token_starts = {};

  // The span that is read before anything else, if one is left.
  Reread* pending_reread() {
    for (Reread& reread : rereads) {
      if (reread.pending() > 0) return &reread;
    }
    return nullptr;
  }
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
  const PlanJournal& journal() const { return journal_; }

 private:
  friend class Engine;

  // Whether entries of the journal are still to be repeated: their messages are in the log and
  // have not been read again.
  bool repeats() const { return repeated_ < journal_.size(); }
  // Under which name its spans are kept: what several conversations share, or its own.
  std::string span_name() const {
    return shares_as_.empty() ? "conversation:" + std::to_string(id_) : shares_as_;
  }
  // The span that is read next, if one is: before the tokens that are pending, or, when nothing is,
  // ahead of the message that will ask for it.
  Reread* pending_reread() {
    if (turn_) return turn_->pending_reread();
    return reading_ahead_ ? &*reading_ahead_ : nullptr;
  }
  // Where the window is to take in what was found for a message, if that is still to come.
  std::optional<LogIndex> planned_message() const {
    if (repeats()) return journal_[repeated_].message;
    if (turn_ && turn_->request.message_start) return turn_->message;
    return std::nullopt;
  }

  ConversationId id_;
  const Policy* policy_;
  TokenLog log_;
  Window window_;
  PlanJournal journal_;
  size_t repeated_ = 0;    // of journal_, the entries that the window has followed
  std::string shares_as_;  // of the turn that named one last, or of the one it is a fork of
  std::optional<RunningTurn> turn_;
  std::deque<LogRange> ahead_;           // to be read while nothing else is to be done
  std::optional<Reread> reading_ahead_;  // the first of them; none while a turn is under way
};

}  // namespace mooring

#endif  // MOORING_ENGINE_CONVERSATION_H_
