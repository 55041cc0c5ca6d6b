// Conversations for many callers at once: finds the one that is meant, keeps what is said in the
// store, and lets the engine answer.
//
// A turn goes three ways: the store's thread finds the conversation and commits the new messages;
// the engine's thread brings the conversation into the engine, renders, reads, and answers; the
// store's thread commits the answer. Only then is the end told. A turn for which every place of the
// engine is busy waits its turn: owners take turns, and what one owner asks for comes in its order.
//
// Thread rule: every method from any thread; listeners are called on the host's threads, must not
// block, and may call Cancel.
#ifndef MOORING_TALK_HOST_H_
#define MOORING_TALK_HOST_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "talk/engine_thread.h"
#include "talk/fair_queue.h"
#include "talk/matching.h"
#include "talk/recognise.h"
#include "talk/residents.h"
#include "talk/snapshot_files.h"
#include "talk/store.h"
#include "talk/store_queue.h"
#include "talk/term_table.h"
#include "text/chat_template.h"

namespace mooring {

// Why a turn was not answered.
enum class Refusal : uint8_t {
  kNotFound,          // the conversation
  kResponseNotFound,  // the answer that it was to follow
  kBusy,              // the conversation is answering another
  kChanged,           // it has another number of turns than was asked for
  kOtherModel,        // its tokens are another model's
  kQueueFull,
  kDraining,
  kTemplate,  // the template refused the messages
  kInvalid,   // settings or names that cannot be
  kDiskFull,
  kFailed,
};

struct TurnOrder {
  std::string owner;                   // nothing is found across owners
  std::string conversation = {};       // id or name; empty: whoever's history it is
  std::string previous_response = {};  // goes on behind that answer; excludes `conversation`
  std::optional<int64_t> if_turn = {};
  bool match = true;   // look for the conversation of a nameless history
  bool keep = true;    // false: neither found nor kept
  bool resent = true;  // the messages may begin with a history that is kept already
  std::vector<RequestMessage> messages;
  // Instead of messages: tokens in `request`, read as they are. Never kept.
  bool raw = false;
  TurnRequest request;
  std::string response_id;
};

struct TurnAccepted {
  std::string conversation;  // empty: not kept
  std::string answer;        // the message's id
  std::string_view matched;  // "id", "exact", "suffix", "fork", "new"
  int64_t turn = 0;
};

// A span that came back for a message, and the message in which it was said.
struct RecalledText {
  LogRange range;
  double score = 0;
  std::string item = {};  // the message's id; empty when it is not kept
  int64_t turn = 0;
};

struct TurnResult {
  TurnEnd end = TurnEnd::kStop;
  TurnStats stats;
  WindowNumbers window;       // at the end
  int64_t prompt_tokens = 0;  // that could be attended to when the answer began
  int64_t cached_tokens = 0;  // of them, not computed for this turn
  int64_t new_tokens = 0;     // that this turn's messages added
  double queue_seconds = 0.0;
  std::vector<RecalledText> recalled = {};  // what stood in the window for this message again
  bool durable = false;
  std::vector<std::string> warnings = {};
};

class TurnListener {
 public:
  virtual ~TurnListener() = default;
  virtual void OnAccepted(const TurnAccepted& /*turn*/) {}
  virtual void OnText(std::string_view /*text*/) {}
  virtual void OnLogits(std::span<const float> /*logits*/) {}
  virtual void OnToken(const SampledToken& /*token*/) {}
  // One of these is the last call.
  virtual void OnEnd(const TurnResult& /*result*/) {}
  virtual void OnRefused(Refusal /*why*/, const Error& /*error*/) {}
};

struct HostOptions {
  size_t queue = 512;                       // turns that may wait or run
  size_t parked_bytes = size_t{512} << 20;  // of idle conversations outside the engine
  // Of those that are parked no longer, or in the engine at the end; an empty folder: none are
  // kept.
  std::filesystem::path snapshots = {};
  uint64_t snapshot_bytes = uint64_t{2} << 30;
  std::string numerics = {};         // what numbers depend on beside the identity
  const TermTable* terms = nullptr;  // outlives the host; null: nothing is called back
  Meaning meaning = {};              // what it refers to outlives the host; runs on its thread
  std::string model = {};            // a new conversation is noted with these
  std::string identity = {};
};

struct HostCounters {
  std::atomic<int64_t> waiting = 0, running = 0;
  std::atomic<int64_t> prompt_tokens = 0, cached_tokens = 0, generated_tokens = 0;
  std::atomic<int64_t> recalled_tokens = 0;  // of spans that stood in view again for a message
  std::atomic<int64_t> in_engine = 0, parked = 0, parked_bytes = 0, rebuilt = 0;
};

class Host {
 public:
  // A turn that may have ended. Keeps nothing alive.
  using Ticket = std::weak_ptr<void>;

  // All outlive this.
  Host(Engine* engine, const ChatTemplate* chat_template, Store* store, HostOptions options);
  ~Host();

  // Asks for an answer. The listener hears of everything, also of a refusal.
  Ticket Say(TurnOrder order, std::shared_ptr<TurnListener> listener);
  // Ends a turn wherever it is; does nothing when it has ended.
  void Cancel(const Ticket& ticket);
  void CancelAll();
  // No new turns; those under way go on.
  void Drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Turns that have not ended.
  int64_t turns() const { return turns_; }
  const HostCounters& counters() const { return counters_; }
  // As they were after the last step, or at the start.
  EngineNumbers engine_numbers() const {
    const std::lock_guard lock(numbers_mutex_);
    return engine_numbers_;
  }

  // Runs `read` on the store's thread, then `then` with whether it is durable.
  void WithStore(StoreQueue::Job job) { store_queue_->Post(std::move(job)); }
  // Gives `then`, on the engine's thread, the view of the conversation if it is in the engine.
  void Look(std::string conversation, std::function<void(std::optional<WindowView>)> then);
  // After its conversation was deleted.
  void Forget(std::string conversation);

  // Whether conversations find again what has left their windows.
  bool recalls() const { return NewMemory().has_value(); }

  const Engine& engine() const { return *engine_; }
  const ChatTemplate& chat_template() const { return *chat_template_; }
  const HostOptions& options() const { return options_; }

 private:
  class Turn;

  // On the store's thread.
  std::optional<std::pair<Refusal, Error>> Accept(Store& store, Turn& turn) const;
  std::optional<std::pair<Refusal, Error>> Locate(Store& store, Turn& turn,
                                                  Recognised* place) const;
  Status LoadLog(Store& store, Turn& turn);
  Status LoadMemory(Store& store, Turn& turn, std::vector<MessageRange> said) const;
  // On the engine's thread.
  void Enqueue(const std::shared_ptr<Turn>& turn);
  void StartWaiting();
  bool Start(const std::shared_ptr<Turn>& turn);
  void Begin(const std::shared_ptr<Turn>& turn);
  void KeepSnapshot(std::string conversation, std::string snapshot);
  std::optional<ResidentMemory> NewMemory() const;
  void Remember(Turn& turn, TurnRequest* request);
  void KeepSaid(Turn& turn, TurnFinish* finish);
  bool FinishEnded();  // whether a turn ended, and others may have begun
  void Finish(const std::shared_ptr<Turn>& turn);
  void GiveUp(const std::shared_ptr<Turn>& turn, Refusal why, const Error& error);
  void Close();
  void NoteResidents();
  void NoteEngine();

  Engine* engine_;
  const ChatTemplate* chat_template_;
  HostOptions options_;
  HostCounters counters_;
  std::atomic<bool> draining_ = false;
  std::atomic<int64_t> turns_ = 0;
  mutable std::mutex numbers_mutex_;
  EngineNumbers engine_numbers_;  // guarded by numbers_mutex_

  // The store's thread only.
  std::optional<SnapshotFiles> snapshots_;

  // The engine's thread only.
  Residents residents_;
  FairQueue<std::shared_ptr<Turn>> waiting_;  // by owner
  std::list<std::shared_ptr<Turn>> running_;

  // Last, so that they end first: their tasks use the rest.
  std::unique_ptr<StoreQueue> store_queue_;
  std::unique_ptr<EngineThread> engine_thread_;
};

}  // namespace mooring

#endif  // MOORING_TALK_HOST_H_
