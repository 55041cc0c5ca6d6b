#include "engine/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"

namespace mooring {
namespace {

// Submitted turns and cancels that may wait for the next Drain.
constexpr size_t kQueueLimit = 1024;

StepLimits LimitsOf(const EngineOptions& options) {
  StepLimits limits;
  limits.rows = options.step_rows;
  limits.logit_rows = std::max(options.logit_rows, options.conversations);
  limits.parts = options.conversations;
  limits.window =
      static_cast<int32_t>(WindowPageBound(options.window, 1, options.step_rows)) * kPageSlots;
  return limits;
}

size_t ArenaBytes(const EngineOptions& options) {
  return PlanBytes(static_cast<size_t>(WindowPageBound(options.window, 1, options.step_rows)));
}

Status CheckOptions(const EngineOptions& options, const Arch& arch) {
  MOORING_RETURN_IF_ERROR(CheckWindowShape(options.window));
  if (options.window.capacity > arch.trained_window && !options.force_window) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the window is longer than the model was trained for",
                 .where = "window",
                 .expected = fmt::format("at most {}", arch.trained_window),
                 .found = fmt::format("{}", options.window.capacity),
                 .remedy = "use a smaller --window, or --force-window if you know better"};
  }
  const auto in_range = [](std::string_view name, int64_t value, int64_t low,
                           int64_t high) -> Status {
    if (value >= low && value <= high) return {};
    return Error{.kind = ErrorKind::kUsage,
                 .what = "an engine setting is out of range",
                 .where = std::string(name),
                 .expected = fmt::format("{} to {}", low, high),
                 .found = fmt::format("{}", value)};
  };
  MOORING_RETURN_IF_ERROR(in_range("window", options.window.capacity, 2, 1 << 24));
  MOORING_RETURN_IF_ERROR(in_range("conversations", options.conversations, 1, 65536));
  MOORING_RETURN_IF_ERROR(in_range("step rows", options.step_rows, 1, 8192));
  return in_range("logit rows", options.logit_rows, 1, 8192);
}

Error TooMany(int limit) {
  return Error{.kind = ErrorKind::kResources,
               .what = "no room for another conversation",
               .where = "engine",
               .expected = fmt::format("at most {}", limit),
               .found = fmt::format("{} already", limit),
               .remedy = "close one, or raise max_batch_size"};
}

}  // namespace

std::string_view NameOf(TurnEnd end) {
  switch (end) {
    case TurnEnd::kStop:
      return "stop";
    case TurnEnd::kStopString:
      return "stop_string";
    case TurnEnd::kLength:
      return "length";
    case TurnEnd::kCancelled:
      return "cancelled";
    case TurnEnd::kWindowFull:
      return "window_full";
    case TurnEnd::kOutOfPages:
      return "out_of_pages";
    case TurnEnd::kNumericError:
      return "numeric_error";
  }
  return "unknown";
}

Result<std::unique_ptr<Engine>> Engine::Create(const Model* model, const Tokenizer* tokenizer,
                                               const EngineOptions& options) {
  const Arch& arch = model->arch();
  MOORING_RETURN_IF_ERROR(CheckOptions(options, arch));
  MOORING_ASSIGN_OR_RETURN(const Policy* policy, FindPolicy(options.policy));
  if (tokenizer->vocab_size() > arch.vocab_size) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "the tokenizer knows more tokens than the model",
                 .where = model->file().path().string(),
                 .expected = fmt::format("at most {}", arch.vocab_size),
                 .found = fmt::format("{}", tokenizer->vocab_size())};
  }
  if (arch.vocab_size - 1 > TokenLog::kMaxToken) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "the model has more tokens than the log has room for",
                 .where = model->file().path().string(),
                 .expected = fmt::format("at most {}", TokenLog::kMaxToken + 1),
                 .found = fmt::format("{}", arch.vocab_size)};
  }
  const PageLayout layout = {options.key_value, arch.head_dim};
  const int heads = arch.layer_count() * arch.kv_heads;
  const int64_t pages =
      WindowPageBound(options.window, heads, options.step_rows) * options.conversations;
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<PagePool> pool,
                           PagePool::Create(layout.page_bytes(), static_cast<size_t>(pages)));
  return std::unique_ptr<Engine>(new Engine(model, tokenizer, options, policy, std::move(pool)));
}

Engine::Engine(const Model* model, const Tokenizer* tokenizer, const EngineOptions& options,
               const Policy* policy, std::unique_ptr<PagePool> pool)
    : model_(model),
      tokenizer_(tokenizer),
      options_(options),
      policy_(policy),
      pool_(std::move(pool)),
      rotary_(model->arch().rotary, WindowTurnCount(options.window)),
      workspace_(model->arch(), LimitsOf(options), model->backend().thread_count()),
      sampler_scratch_(model->arch().vocab_size),
      recent_(kMaxPenaltyWindow),
      written_(kMaxPenaltyWindow),
      arena_(ArenaBytes(options)),
      spans_(options.span_bytes) {
  const auto conversations = static_cast<size_t>(options.conversations);
  const auto rows = static_cast<size_t>(options.step_rows);
  conversations_.reserve(conversations);
  queue_.reserve(kQueueLimit + conversations);
  drained_.reserve(kQueueLimit + conversations);
  work_.reserve(conversations);
  scheduled_rows_.reserve(conversations);
  tokens_.reserve(rows);
  places_.resize(rows);
  logit_rows_.reserve(rows);
  parts_.reserve(conversations);
  part_owners_.reserve(conversations);
  part_rereads_.reserve(conversations);
}

Engine::~Engine() = default;

EngineMemory Engine::memory() const {
  return {.weights = model_->file().file_bytes(),
          .pages = pool_->slab_bytes(),
          .workspace = workspace_.bytes(),
          .tables = static_cast<uint64_t>(rotary_.turn_count()) *
                    static_cast<uint64_t>(rotary_.half_dim()) * 2 * sizeof(float)};
}

EngineNumbers Engine::numbers() const {
  EngineNumbers numbers = {.counters = counters_,
                           .pages = static_cast<int64_t>(pool_->page_count()),
                           .free_pages = static_cast<int64_t>(pool_->free_count()),
                           .shared_pages = static_cast<int64_t>(pool_->shared_count()),
                           .windows = static_cast<int64_t>(conversations_.size())};
  for (const auto& conversation : conversations_) {
    const Window& window = conversation->window_;
    if (!window.HoldsAnchors()) ++numbers.windows_without_anchors;
    const int64_t anchors = std::min<int64_t>(window.shape().anchors, window.attended());
    numbers.anchor_tokens += anchors;
    numbers.recalled_tokens += window.recalled_slots();
    numbers.recent_tokens += window.attended() - anchors - window.recalled_slots();
  }
  numbers.span_bytes = static_cast<int64_t>(spans_.bytes());
  return numbers;
}

Conversation* Engine::FindMutable(ConversationId id) {
  for (const auto& conversation : conversations_) {
    if (conversation->id_ == id) return conversation.get();
  }
  return nullptr;
}

const Conversation* Engine::Find(ConversationId id) const {
  return const_cast<Engine*>(this)->FindMutable(id);
}

Conversation* Engine::OpenEmpty() {
  if (conversations_.size() >= static_cast<size_t>(options_.conversations)) return nullptr;
  const Arch& arch = model_->arch();
  conversations_.push_back(std::make_unique<Conversation>(
      next_id_++, policy_,
      Window(options_.window, {options_.key_value, arch.head_dim}, arch.layer_count(),
             arch.kv_heads, options_.step_rows, pool_.get())));
  return conversations_.back().get();
}

Result<ConversationId> Engine::Open() {
  const Conversation* conversation = OpenEmpty();
  if (conversation == nullptr) return TooMany(options_.conversations);
  return conversation->id_;
}

Status Engine::CheckLog(const TokenLog& log, const PlanJournal& journal) const {
  for (LogIndex i = {0}; i < log.end(); i = i + 1) {
    if (log.token(i) < model_->arch().vocab_size) continue;
    return Error{.kind = ErrorKind::kUsage,
                 .what = "a token of the log is not one of this model",
                 .where = fmt::format("token {}", i.value),
                 .expected = fmt::format("an id below {}", model_->arch().vocab_size),
                 .found = fmt::format("{}", log.token(i))};
  }
  return CheckJournal(journal, log.end());
}

Result<ConversationId> Engine::OpenLog(TokenLog log, PlanJournal journal) {
  MOORING_RETURN_IF_ERROR(CheckLog(log, journal));
  Conversation* conversation = OpenEmpty();
  if (conversation == nullptr) return TooMany(options_.conversations);
  conversation->log_ = std::move(log);
  conversation->journal_ = std::move(journal);
  return conversation->id_;
}

Result<bool> Engine::GoOnTo(ConversationId id, TokenLog log, PlanJournal journal) {
  Conversation* conversation = FindMutable(id);
  CHECK(conversation != nullptr && !conversation->busy(), "conversation {} is missing or busy", id);
  MOORING_RETURN_IF_ERROR(CheckLog(log, journal));
  const PlanJournal& done = conversation->journal_;
  const auto rest = std::ranges::mismatch(done, journal);
  if (rest.in1 != done.end() || !conversation->log_.Begins(log)) return false;
  // A plan of the rest that was made within what is read would be passed over.
  if (rest.in2 != journal.end() && rest.in2->message < conversation->log_.end()) return false;
  conversation->log_ = std::move(log);
  conversation->journal_ = std::move(journal);
  return true;
}

void Engine::Close(ConversationId id) {
  Conversation* conversation = FindMutable(id);
  CHECK(conversation != nullptr, "no conversation {}", id);
  if (conversation->busy()) EndTurn(*conversation, TurnEnd::kCancelled);
  std::erase_if(conversations_, [id](const auto& held) { return held->id_ == id; });
}

Result<ConversationId> Engine::Fork(ConversationId id) {
  const Conversation* from = Find(id);
  CHECK(from != nullptr && !from->busy(), "conversation {} is missing or busy", id);
  if (conversations_.size() >= static_cast<size_t>(options_.conversations)) {
    return TooMany(options_.conversations);
  }
  auto fork = std::make_unique<Conversation>(next_id_++, from->policy_, from->window_.Fork());
  fork->log_ = from->log_;
  fork->journal_ = from->journal_;
  fork->repeated_ = from->repeated_;
  fork->shares_as_ = from->span_name();
  conversations_.push_back(std::move(fork));
  return conversations_.back()->id_;
}

void Engine::Age(ConversationId id, int64_t tokens) {
  Conversation* conversation = FindMutable(id);
  CHECK(conversation != nullptr && !conversation->busy(), "conversation {} is missing or busy", id);
  CHECK(conversation->journal_.empty() && conversation->ahead_.empty());
  conversation->window_.Age(tokens);
  const TokenLog young = std::move(conversation->log_);
  TokenLog aged;
  const auto copy_to = [&](LogIndex to, LogIndex index) {
    for (; index < to; index = index + 1) aged.Append(young.token(index), young.generated(index));
  };
  const LogIndex anchors = {options_.window.anchors};
  copy_to(anchors, {});
  for (int64_t i = 0; i < tokens; ++i) aged.Append(0, false);
  copy_to(young.end(), anchors);
  conversation->log_ = std::move(aged);
}

void Engine::DropKept() {
  prefixes_.DropAll();
  spans_.DropAll();
}

void Engine::ReadAhead(ConversationId id, std::span<const LogRange> spans) {
  Conversation* conversation = FindMutable(id);
  CHECK(conversation != nullptr, "no conversation {}", id);
  if (spans_.most_bytes() == 0) return;
  conversation->ahead_.insert(conversation->ahead_.end(), spans.begin(), spans.end());
}

Status Engine::Submit(ConversationId id, TurnRequest request, Sink* sink) {
  MOORING_RETURN_IF_ERROR(CheckSamplerSettings(request.sampler));
  const auto bad = [](std::string what, std::string where, std::string expected,
                      std::string found) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = std::move(what),
                 .where = std::move(where),
                 .expected = std::move(expected),
                 .found = std::move(found)};
  };
  if (request.stop.size() > kMaxStopStrings) {
    return bad("too many stop strings", "stop", fmt::format("at most {}", kMaxStopStrings),
               fmt::format("{}", request.stop.size()));
  }
  for (const std::string& stop : request.stop) {
    if (stop.empty() || stop.size() > kMaxStopBytes) {
      return bad("a stop string has the wrong length", "stop",
                 fmt::format("1 to {} bytes", kMaxStopBytes), fmt::format("{}", stop.size()));
    }
  }
  for (const TokenId token : request.tokens) {
    if (token < 0 || token >= model_->arch().vocab_size) {
      return bad("a token id is out of range", "tokens",
                 fmt::format("0 to {}", model_->arch().vocab_size - 1), fmt::format("{}", token));
    }
  }
  if (request.found.size() > kMaxRecalledSpans) {
    return bad("too many spans to call back", "found", fmt::format("at most {}", kMaxRecalledSpans),
               fmt::format("{}", request.found.size()));
  }
  for (const OfferedSpan& span : request.found) {
    if (span.range.from.value < 0 || span.range.tokens() <= 0 ||
        span.range.tokens() > options_.window.recalled) {
      return bad("a span to call back is out of range", "found",
                 fmt::format("1 to {} tokens of the log", options_.window.recalled),
                 fmt::format("{} to {}", span.range.from.value, span.range.to.value));
    }
  }
  const std::lock_guard lock(queue_mutex_);
  if (queue_.size() >= kQueueLimit) {
    return Error{.kind = ErrorKind::kStateHeld,
                 .what = "the engine's queue is full",
                 .where = "engine",
                 .expected = fmt::format("at most {} waiting turns", kQueueLimit),
                 .found = fmt::format("{}", queue_.size()),
                 .remedy = "try again later"};
  }
  queue_.push_back({id, false, std::move(request), sink});
  return {};
}

void Engine::Cancel(ConversationId id) {
  const std::lock_guard lock(queue_mutex_);
  // A queue that is full of other work still takes a cancel: of a turn that is in it, or one more
  // entry, of which there is only one at a time behind the last turn of a conversation.
  const auto last = std::ranges::find(queue_.rbegin(), queue_.rend(), id, &Submitted::id);
  if (last != queue_.rend()) {
    last->cancel = true;
  } else if (queue_.size() < kQueueLimit + static_cast<size_t>(options_.conversations)) {
    queue_.push_back({id, true, {}, nullptr});
  }
}

void Engine::RunUntilIdle(ConversationId id) {
  for (;;) {
    const bool worked = Step();
    const Conversation* conversation = Find(id);
    if (conversation == nullptr || !conversation->busy() || !worked) return;
  }
}

}  // namespace mooring
