// A talk between a person and a model on top of one engine conversation: messages in, the tokens of
// new turns out. Old turns are never rendered again; the log is what was said.
//
// A turn that is stopped while its message is still being read keeps what was read: the record of
// the message then covers those tokens only, and a message of which nothing was read leaves no
// record at all.
//
// Of a message only the place of its words in the log is kept: the log is nearly all that a talk
// adds to memory. Words that the tokens do not spell (a template trims them) are kept beside.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_TALK_DIALOGUE_H_
#define MOORING_TALK_DIALOGUE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "talk/long_memory.h"
#include "talk/turn_text.h"
#include "text/chat_template.h"

namespace mooring {

struct TurnRecord {
  std::string_view role;  // "system", "user" or "assistant"
  std::string text;
  LogIndex from;  // its tokens in the log: [from, to). System text has those of the message that it
  LogIndex to;    // was rendered with.

  friend bool operator==(const TurnRecord&, const TurnRecord&) = default;
};

// What a dialogue knows beside the engine's log: enough to take it up again.
struct DialogueState {
  SystemText system;
  bool system_is_new = true;  // not said to the model yet
  std::vector<TurnRecord> turns;
  std::vector<SpanVector> vectors;  // that its memory had
};

// Submits a turn and steps the engine until it has ended; a set `*interrupted` (may be null)
// cancels it. REQUIRES: nothing else runs the engine.
Status RunTurn(Engine* engine, ConversationId id, TurnRequest request, Sink* sink,
               const std::atomic<bool>* interrupted);

class Dialogue {
 public:
  // Opens an empty conversation in the engine. `engine` and `chat_template` outlive this.
  static Result<Dialogue> Create(Engine* engine, const ChatTemplate* chat_template,
                                 SystemText system);
  // Takes over a conversation that was restored. REQUIRES: records within its log.
  Dialogue(Engine* engine, const ChatTemplate* chat_template, ConversationId id,
           DialogueState state);
  Dialogue(Dialogue&& other) noexcept;
  Dialogue& operator=(Dialogue&&) = delete;
  ~Dialogue();  // closes the conversation

  // A second dialogue that shares the past of this one, and what of it can be found again. Errors
  // of Engine::Fork. REQUIRES: no turn is under way.
  Result<Dialogue> Fork() const;

  ConversationId id() const { return id_; }
  const SystemText& system() const { return system_; }
  bool system_is_new() const { return system_is_new_; }
  size_t turn_count() const { return turns_.size(); }
  // Record i in the order of the log, its text put together from the log. REQUIRES: i <
  // turn_count().
  TurnRecord turn(size_t i) const;
  // How many tokens the last message of the user took, of the records from `first` on; 0 when none
  // of them is the user's.
  int64_t MessageTokens(size_t first) const;
  // How many messages of the user there are.
  int64_t user_turns() const;

  // From now on what has left the window is found again by messages that ask for it, and what was
  // said so far is indexed. `terms` (of the engine's tokenizer) and what `meaning` refers to
  // outlive this. Does nothing where the window has no room for what comes back.
  void Remember(const TermTable* terms, Meaning meaning = {});
  // Turns it off again: nothing is called back, and what was indexed is gone.
  void Forget() { memory_.reset(); }
  // Null unless Remember turned it on.
  const LongMemory* memory() const { return memory_ ? &*memory_ : nullptr; }
  // Those of its memory, also before that was turned on: what DialogueState has of them.
  std::vector<SpanVector> vectors() const;
  // Which message of the user, counted from 1, the round of the token at `index` began with.
  int64_t UserTurnOf(LogIndex index) const;

  // New instructions: rendered with the next user message. Before the first message they are simply
  // the system text.
  void SetSystem(SystemText system);

  // Says `text` as the user and lets the model answer: renders what is new, submits it with the
  // settings of `request` (whose tokens are filled in here, and what is found for it, unless it
  // names spans itself) and steps the engine until the turn has ended. The answer goes to `sink`
  // and into the records; it begins with `answer_start`, words that are put into the model's mouth,
  // of which the sink is not told. A set `*interrupted` (may be null) cancels it. Errors: the
  // template refused the message (kUsage).
  Result<TurnEnd> Say(std::string_view text, TurnRequest request, Sink* sink,
                      const std::atomic<bool>* interrupted, std::string_view answer_start = {});

  // Reads what was said elsewhere, without letting the model answer: a "user" message, then the
  // "assistant" message that answered it. Both count as read, not as generated. kInterrupted when
  // `*interrupted` stopped it, kFailed when the window or the pages did.
  // REQUIRES for ReadAnswer: the last record is of a user.
  Status ReadMessage(std::string_view text, const std::atomic<bool>* interrupted);
  Status ReadAnswer(std::string_view text, const std::atomic<bool>* interrupted);

 private:
  struct Outcome {
    TurnEnd end = TurnEnd::kLength;
    TurnStats stats;
    std::string text;
  };
  class Recorder;
  struct Turn {
    std::string_view role;
    LogIndex from, to;
    LogIndex text_from, text_to;  // the tokens that spell the text; texts_ has it if there are none
  };

  LogIndex log_end() const;
  TalkPlace place() const;
  Result<std::vector<TokenId>> RenderNew(std::string_view role, std::string_view text) const;
  // A request that begins with the message `text`: its tokens, and what is found for it.
  Result<TurnRequest> Begin(std::string_view text, TurnRequest request);
  void IndexRounds();
  Result<Outcome> Run(TurnRequest request, Sink* sink, const std::atomic<bool>* interrupted);
  void AddTurn(std::string_view role, std::string_view text, LogIndex from, LogIndex to);
  // Notes the message whose tokens begin at `from`, and that the system text was said with it.
  // False when none of its tokens was read.
  bool RecordMessage(std::string_view text, LogIndex from, LogIndex to, bool whole);

  Engine* engine_;
  const ChatTemplate* chat_template_;
  ConversationId id_ = 0;
  SystemText system_;
  bool system_is_new_ = true;
  std::deque<Turn> turns_;
  std::map<size_t, std::string> texts_;  // by index into turns_
  std::optional<LongMemory> memory_;
  std::vector<SpanVector>
      kept_vectors_;          // from before this was taken up again; until memory_ has them
  size_t indexed_turns_ = 0;  // of turns_, those that memory_ has
};

}  // namespace mooring

#endif  // MOORING_TALK_DIALOGUE_H_
