// Which conversations are in the engine, and which wait outside it: more can be talked with than
// the engine has places. An idle one is parked as the bytes of its snapshot when another needs its
// place, the one used longest ago first, and what is parked beyond a limit is given away: to a file
// (talk/snapshot_files.h). What is said behind that, or all of it if the file is lost, is in the
// store's log, and reading it again gives the same window.
//
// A resident is known by its conversation and by the last message whose tokens are in its log.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_TALK_RESIDENTS_H_
#define MOORING_TALK_RESIDENTS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "talk/long_memory.h"
#include "talk/turn_text.h"

namespace mooring {

// What the model can see of a conversation, in tokens.
struct WindowNumbers {
  int64_t log = 0;  // everything ever said
  int64_t capacity = 0;
  int64_t anchors = 0;
  int64_t recalled = 0;
  int64_t recent = 0;
  int64_t seen() const { return anchors + recalled + recent; }
  int64_t forgotten() const { return log - seen(); }
};
WindowNumbers NumbersOf(const Conversation& conversation);

// The same with the places of what came back.
struct WindowView {
  WindowNumbers numbers;
  std::vector<RecalledSpan> recalled = {};
  int64_t indexed = 0;  // tokens from the beginning on of which what is out of sight can come back
};

// What a conversation can find again, and what of it is not in the index yet.
struct ResidentMemory {
  LongMemory index;
  std::vector<MessageRange> said = {};  // since the last round that was indexed
  LogIndex indexed = {};                // where that ended
  SpanId stored = 0;                    // spans whose vectors the store has
  SpanId ahead = 0;                     // spans that SpansToReadAhead gave

  // A new message of the user ends the round before.
  void IndexSaid(const TokenLog& log);
  // What was said and indexed before, from the vectors that were kept of it. Any thread.
  void IndexAgain(const TokenLog& log, std::span<const MessageRange> again,
                  std::span<const SpanVector> vectors);
  // Those that have left the window of the conversation since it was asked last: any of them may
  // come back with the next message.
  std::vector<LogRange> SpansToReadAhead(const Conversation& conversation);
};

struct Resident {
  std::string conversation;  // its id in the store; empty: nobody will come back to it
  std::string tip;           // the last message in its log; empty: an empty log
  TalkPlace place;
  std::optional<ResidentMemory> memory;  // nothing where nothing comes back
  bool busy = false;                     // a turn has it
  ConversationId id = 0;                 // in the engine; 0: parked
  std::string snapshot;                  // of a parked one
  LogIndex kept;                         // up to where its keys and values were given away last
};

struct ResidentCounts {
  int64_t in_engine = 0;
  int64_t parked = 0;
  int64_t parked_bytes = 0;
};

class Residents {
 public:
  // Takes the snapshot of a conversation that is parked no longer, or a copy.
  using GiveAway = std::function<void(std::string conversation, std::string snapshot)>;
  // A snapshot has some megabytes, and is the work of a few tokens.
  static constexpr int64_t kKeepTokens = 2048;

  // `engine` outlives this.
  Residents(Engine* engine, size_t parked_limit_bytes, GiveAway give_away)
      : engine_(engine),
        parked_limit_bytes_(parked_limit_bytes),
        give_away_(std::move(give_away)) {}

  // Null when there is none, or it is busy.
  Resident* Find(std::string_view conversation, std::string_view tip);
  // Puts an idle one into the engine. False when every place there is busy.
  Result<bool> Wake(Resident* resident);
  // A new one, busy, in the engine; `log` may be empty. A snapshot of it, if there is one (else
  // empty), spares reading the log again, and `*spared` says so. Null when every place is busy.
  Result<Resident*> Add(std::string conversation, TokenLog log, PlanJournal journal,
                        std::string_view snapshot, bool* spared);
  // Gives away all of them; none is left. REQUIRES: none is busy.
  void GiveAwayAll();
  // The turn is over: it may be parked from now on. After every kKeepTokens tokens a copy of its
  // keys and values is given away, so that a program that is killed has little to read again.
  void Release(Resident* resident);
  void Drop(Resident* resident);
  // All of a conversation that was deleted; busy ones when their turn ends.
  void Forget(std::string_view conversation);

  // Of the one used last, if it is in the engine.
  std::optional<WindowView> Look(std::string_view conversation) const;
  ResidentCounts Count() const;

 private:
  bool MakeRoom();
  void LimitParked();

  Engine* engine_;
  size_t parked_limit_bytes_;
  GiveAway give_away_;
  std::list<Resident> residents_;  // used last first
};

}  // namespace mooring

#endif  // MOORING_TALK_RESIDENTS_H_
