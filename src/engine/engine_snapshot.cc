// A conversation's log and window as bytes and back.
//
// Layout, little endian: u64 token count, i32 ids, one byte per token (1: generated); u64 count of
// the journal and its SavedEntry; then the window (memory/window_snapshot.cc). Whoever stores the
// bytes adds the checksums.

#include <fmt/format.h>

#include <cstring>

#include "base/checked.h"
#include "engine/engine.h"

namespace mooring {
namespace {

struct SavedEntry {
  int64_t message, from, to;
  int64_t behind_anchors;
};

Error Corrupt(std::string where, std::string expected, std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the saved conversation cannot be used",
               .where = std::move(where),
               .expected = std::move(expected),
               .found = std::move(found)};
}

}  // namespace

void Engine::AppendSnapshot(ConversationId id, std::string* out) const {
  const Conversation* conversation = Find(id);
  CHECK(conversation != nullptr && !conversation->busy(), "conversation {} is missing or busy", id);
  const TokenLog& log = conversation->log_;
  const auto count = static_cast<uint64_t>(log.end().value);
  const size_t at = out->size();
  out->resize(at + sizeof(count) + count * (sizeof(TokenId) + 1));
  std::memcpy(out->data() + at, &count, sizeof(count));
  char* ids = out->data() + at + sizeof(count);
  char* bits = ids + count * sizeof(TokenId);
  for (uint64_t i = 0; i < count; ++i) {
    const LogIndex index = {static_cast<int64_t>(i)};
    const TokenId token = log.token(index);
    std::memcpy(ids + i * sizeof(token), &token, sizeof(token));
    bits[i] = log.generated(index) ? 1 : 0;
  }
  const auto append = [out](const auto& value) {
    out->append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(static_cast<uint64_t>(conversation->journal_.size()));
  for (const JournalEntry& entry : conversation->journal_) {
    append(SavedEntry{entry.message.value, entry.found.range.from.value, entry.found.range.to.value,
                      entry.found.behind_anchors ? 1 : 0});
  }
  conversation->window_.AppendSnapshot(out);
}

namespace {

// Takes the journal from the front of `bytes`.
Result<PlanJournal> TakeJournal(std::span<const std::byte>* bytes) {
  uint64_t count = 0;
  const bool counted = bytes->size() >= sizeof(count);
  if (counted) std::memcpy(&count, bytes->data(), sizeof(count));
  const CheckedSize size = CheckedSize(count) * sizeof(SavedEntry) + sizeof(count);
  if (!counted || !size.AtMost(bytes->size())) {
    return Corrupt("journal", fmt::format("entries inside {} bytes", bytes->size()),
                   fmt::format("{} entries", count));
  }
  PlanJournal journal(count);
  for (uint64_t i = 0; i < count; ++i) {
    SavedEntry saved;
    std::memcpy(&saved, bytes->data() + sizeof(count) + i * sizeof(saved), sizeof(saved));
    journal[i] = {{saved.message}, {{{saved.from}, {saved.to}}, saved.behind_anchors != 0}};
  }
  *bytes = bytes->subspan(*size.value());
  return journal;
}

}  // namespace

Result<ConversationId> Engine::OpenSnapshot(std::span<const std::byte> bytes) {
  uint64_t count = 0;
  if (bytes.size() < sizeof(count)) {
    return Corrupt("length", fmt::format("at least {} bytes", sizeof(count)),
                   fmt::format("{}", bytes.size()));
  }
  std::memcpy(&count, bytes.data(), sizeof(count));
  const CheckedSize log_bytes = CheckedSize(count) * (sizeof(TokenId) + 1) + sizeof(count);
  if (!log_bytes.AtMost(bytes.size())) {
    return Corrupt("token count", fmt::format("a log inside {} bytes", bytes.size()),
                   fmt::format("{} tokens", count));
  }
  TokenLog log;
  const std::byte* ids = bytes.data() + sizeof(count);
  const std::byte* bits = ids + count * sizeof(TokenId);
  for (uint64_t i = 0; i < count; ++i) {
    TokenId token = 0;
    std::memcpy(&token, ids + i * sizeof(token), sizeof(token));
    if (token < 0 || token >= model_->arch().vocab_size) {
      return Corrupt(fmt::format("token {}", i),
                     fmt::format("an id below {}", model_->arch().vocab_size),
                     fmt::format("{}", token));
    }
    log.Append(token, bits[i] == std::byte{1});
  }
  bytes = bytes.subspan(*log_bytes.value());
  MOORING_ASSIGN_OR_RETURN(PlanJournal journal, TakeJournal(&bytes));
  if (Status checked = CheckJournal(journal, log.end()); !checked.ok()) {
    return Corrupt(checked.error().where, checked.error().expected, checked.error().found);
  }
  Conversation* conversation = OpenEmpty();
  if (conversation == nullptr) {
    return Error{.kind = ErrorKind::kResources,
                 .what = "no room for another conversation",
                 .where = "engine",
                 .expected = fmt::format("at most {}", options_.conversations),
                 .found = fmt::format("{} already", options_.conversations)};
  }
  conversation->log_ = std::move(log);
  conversation->journal_ = std::move(journal);
  conversation->repeated_ = conversation->journal_.size();
  const ConversationId id = conversation->id_;
  // Its pages go before those that are only kept.
  const auto most = static_cast<size_t>(WindowPageBound(
      options_.window, model_->arch().layer_count() * model_->arch().kv_heads, options_.step_rows));
  while (pool_->free_count() < most && prefixes_.DropOldest()) {
  }
  const Status restored = conversation->window_.RestoreSnapshot(bytes);
  const int64_t pending = conversation->pending_rows();
  if (restored.ok() && pending >= 0 && pending <= 1) return id;
  Close(id);
  if (!restored.ok()) return restored.error();
  return Corrupt("tokens read", "all of the log, but for one at most",
                 fmt::format("{} tokens not read", pending));
}

}  // namespace mooring
