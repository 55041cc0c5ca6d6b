// The engine: many conversations, one model, one thread that changes state.
//
// Step is the heart: Drain the queue of submitted turns; Plan what each window keeps; Schedule the
// rows; run the model Forward; Deliver tokens to logs and sinks. All memory is taken at start.
//
// Thread rule: Submit and Cancel may be called from any thread. Everything else belongs to the
// thread that runs Step.
#ifndef MOORING_ENGINE_ENGINE_H_
#define MOORING_ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "engine/conversation.h"
#include "engine/kept_prefixes.h"
#include "engine/kept_spans.h"
#include "engine/scheduler.h"
#include "engine/turn.h"
#include "memory/page_pool.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace mooring {

struct EngineOptions {
  std::string policy = "sinks";
  WindowShape window = {.capacity = 2048, .anchors = 4};
  DType key_value = DType::kF16;  // one of kKeyValueTypes
  bool force_window = false;      // allow windows beyond what the model was trained on
  int conversations = 1;          // held at the same time, each with a whole window
  int step_rows = 128;            // tokens per step
  int logit_rows = 8;             // rows with logits per step, at least `conversations`
  uint64_t span_bytes = 0;        // most that is kept of spans that were read again
};

// Where the engine's memory went, in bytes.
struct EngineMemory {
  uint64_t weights = 0;    // mapped from the model file
  uint64_t pages = 0;      // the pool
  uint64_t workspace = 0;  // buffers of a step
  uint64_t tables = 0;     // rotary angles
};

// What the engine did since it was made.
struct EngineCounters {
  int64_t steps = 0;
  int64_t rows = 0;            // of all steps
  int64_t conversations = 0;   // of all steps: over `steps`, how many share one
  int64_t evicted_tokens = 0;  // that left a window behind its anchors, a log read again too
  // Of spans that were called back: those that a message waited for, and those that were there.
  int64_t reread_tokens = 0, spared_tokens = 0;
  int64_t ahead_tokens = 0;    // of spans that were read while nothing waited
  int64_t numeric_errors = 0;  // turns that ended with numbers that are not finite
  int64_t out_of_pages = 0;    // turns that ended because no page was free
  double plan_seconds = 0.0;   // of all steps: Drain, Plan and Schedule
  double forward_seconds = 0.0;
  double deliver_seconds = 0.0;
};

// How the engine stands: what an operator wants to see.
struct EngineNumbers {
  EngineCounters counters;
  int64_t pages = 0;
  int64_t free_pages = 0;
  int64_t shared_pages = 0;             // of those used, by more than one window
  int64_t windows = 0;                  // of the conversations that it holds
  int64_t windows_without_anchors = 0;  // a fault of this program: must stay 0
  // Tokens in all windows, by why they are there.
  int64_t anchor_tokens = 0, recalled_tokens = 0, recent_tokens = 0;
  int64_t span_bytes = 0;  // of spans that are kept beside the pages
};

class Engine {
 public:
  // Checks the options against the model and takes all memory. `tokenizer` and `model` outlive it.
  // kUsage: a window beyond the trained one without force_window, an unknown policy, a shape that
  // cannot be. kResources: it does not fit.
  static Result<std::unique_ptr<Engine>> Create(const Model* model, const Tokenizer* tokenizer,
                                                const EngineOptions& options);
  ~Engine();

  const EngineOptions& options() const { return options_; }
  const Model& model() const { return *model_; }
  const Tokenizer& tokenizer() const { return *tokenizer_; }
  EngineMemory memory() const;
  EngineNumbers numbers() const;

  // A new, empty conversation; kResources when `options.conversations` exist already.
  Result<ConversationId> Open();
  // Ends it, cancelling its turn. REQUIRES: it exists.
  void Close(ConversationId id);
  // A second conversation with the same log and window, sharing pages. kResources when there is no
  // room. REQUIRES: it exists and is idle.
  Result<ConversationId> Fork(ConversationId id);
  // Makes it older by so many tokens that nobody said, at once: Window::Age and a log as long. For
  // tests and measurements. REQUIRES: as there; it exists, is idle, and nothing was found for it.
  void Age(ConversationId id, int64_t tokens);
  // Gives back what is kept of how conversations began (TurnRequest::shares_as) and of spans that
  // were read again.
  void DropKept();
  // Reads these spans of the log again while there is nothing else to do, so that the message that
  // calls one back need not wait for it: behind those that were named before. What is kept already
  // or cannot come back is passed over. Does nothing where `options.span_bytes` is 0.
  // REQUIRES: it exists.
  void ReadAhead(ConversationId id, std::span<const LogRange> spans);
  // Null when there is none of that id. Valid until the next call that is not const.
  const Conversation* Find(ConversationId id) const;

  // Puts a turn on the queue; `sink` lives until its OnEnd. kUsage: settings, stop strings, token
  // ids or found spans out of range. kStateHeld: the queue is full. A conversation that does not
  // exist or has a turn already ends the turn with kCancelled at the next Step.
  Status Submit(ConversationId id, TurnRequest request, Sink* sink);
  // Ends the turn at the next Step. Does nothing when there is none. Async-signal-safe: no.
  void Cancel(ConversationId id);

  // One step; false when there was nothing to do, nor to be read ahead.
  bool Step();
  // Steps until the conversation is idle. What `chat` and the tests use.
  void RunUntilIdle(ConversationId id);

  // A conversation's log and window as bytes (talk/ puts them into files), and back into a new one.
  // REQUIRES for saving: it exists and is idle.
  void AppendSnapshot(ConversationId id, std::string* out) const;
  Result<ConversationId> OpenSnapshot(std::span<const std::byte> bytes);
  // A conversation that has said all this and holds no page yet: its next turn begins by reading it
  // again, with what the journal says was found for its messages, and the windows and answers that
  // follow are those of the first time. A turn that ends before that leaves a shorter log. kUsage
  // for ids out of range and a journal that is not one of this log, kResources as Open.
  Result<ConversationId> OpenLog(TokenLog log, PlanJournal journal = {});
  // The same for the rest of a log of which a conversation has the beginning. False, and nothing
  // changed, when its log or journal is no beginning of these. Errors of OpenLog.
  // REQUIRES: it exists and is idle.
  Result<bool> GoOnTo(ConversationId id, TokenLog log, PlanJournal journal);

 private:
  struct Submitted {
    ConversationId id = 0;
    bool cancel = false;
    TurnRequest request;
    Sink* sink = nullptr;
  };

  Engine(const Model* model, const Tokenizer* tokenizer, const EngineOptions& options,
         const Policy* policy, std::unique_ptr<PagePool> pool);

  Conversation* FindMutable(ConversationId id);
  Conversation* OpenEmpty();

  void Drain();
  void Plan();
  bool Schedule();
  void Forward();
  void Deliver();

  Status CheckLog(const TokenLog& log, const PlanJournal& journal) const;
  void StartTurn(Conversation& conversation, Submitted submitted);
  void BeginShared(Conversation& conversation);
  void PlanMessage(Conversation& conversation);
  void NoteMessage(Conversation& conversation, bool held_spans);
  void ClearStep();
  bool ScheduleAhead();
  Reread* NextAhead(Conversation& conversation);
  bool AddPart(Conversation& conversation, const WaitingWork& work, int row_count);
  void DeliverReread(Conversation& conversation, const Reread& reread, int row_count);
  void DeliverRows(Conversation& conversation, const StepPart& part, size_t* logit_row);
  void DeliverRow(Conversation& conversation, LogIndex index, std::span<const float> logits);
  RecentTokens RecentOf(const Conversation& conversation);
  void TakeToken(Conversation& conversation, const SampledToken& sampled);
  void RewindStopString(Conversation& conversation);
  void EndTurn(Conversation& conversation, TurnEnd end);

  const Model* model_;
  const Tokenizer* tokenizer_;
  EngineOptions options_;
  const Policy* policy_;
  std::unique_ptr<PagePool> pool_;
  RotaryTable rotary_;
  Workspace workspace_;
  SamplerScratch sampler_scratch_;
  std::vector<TokenId> recent_;   // [kMaxPenaltyWindow] the last tokens of the log being sampled
  std::vector<TokenId> written_;  // [kMaxPenaltyWindow] of them, what RecentTokens calls written
  Arena arena_;

  KeptPrefixes prefixes_;
  KeptSpans spans_;
  std::vector<std::unique_ptr<Conversation>> conversations_;
  ConversationId next_id_ = 1;

  std::mutex queue_mutex_;
  std::vector<Submitted> queue_;    // guarded by queue_mutex_
  std::vector<Submitted> drained_;  // the engine thread's half of the queue

  // The step that is being built; reserved at start.
  std::vector<WaitingWork> work_;
  std::vector<int> scheduled_rows_;
  int schedule_turn_ = 0;
  size_t ahead_turn_ = 0;  // whose spans are read ahead next
  std::vector<TokenId> tokens_;
  std::vector<RowPlace> places_;
  std::vector<int> logit_rows_;
  std::vector<StepPart> parts_;
  std::vector<Conversation*> part_owners_;
  std::vector<Reread*> part_rereads_;  // the span that the part reads again, or null
  EngineCounters counters_;
};

}  // namespace mooring

#endif  // MOORING_ENGINE_ENGINE_H_
