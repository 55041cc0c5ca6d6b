#include "talk/residents.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.h"

namespace mooring {

WindowNumbers NumbersOf(const Conversation& conversation) {
  const Window& window = conversation.window();
  WindowNumbers numbers;
  numbers.log = conversation.log().end().value;
  numbers.capacity = window.shape().capacity;
  // The token that was said last and not read yet will be attended to by itself.
  const int64_t held = std::min<int64_t>(
      {numbers.capacity, numbers.log, window.attended() + conversation.pending_rows()});
  numbers.anchors = std::min<int64_t>(window.shape().anchors, held);
  numbers.recalled = std::min<int64_t>(window.recalled_slots(), held - numbers.anchors);
  numbers.recent = held - numbers.anchors - numbers.recalled;
  return numbers;
}

void ResidentMemory::IndexSaid(const TokenLog& log) {
  if (said.empty()) return;
  index.Add(log, said);
  indexed = said.back().all.to;
  said.clear();
}

void ResidentMemory::IndexAgain(const TokenLog& log, std::span<const MessageRange> again,
                                std::span<const SpanVector> vectors) {
  if (again.empty()) return;
  index.AddAgain(log, again, vectors);
  indexed = again.back().all.to;
  stored = index.index().span_count();
  ahead = stored;  // they wait until they are asked for: all of a long talk would take too long
}

std::vector<LogRange> ResidentMemory::SpansToReadAhead(const Conversation& conversation) {
  std::vector<LogRange> spans;
  const Window& window = conversation.window();
  const LogIndex seen_from = window.SeenFrom(conversation.log().end());
  for (; ahead < index.index().span_count(); ++ahead) {
    const LogRange span = index.index().range(ahead);
    if (span.from >= seen_from) break;
    if (span.to.value <= window.shape().anchors) continue;
    spans.push_back(index.LikelyRun(span));
  }
  return spans;
}

Resident* Residents::Find(std::string_view conversation, std::string_view tip) {
  const auto found = std::ranges::find_if(residents_, [&](const Resident& resident) {
    return !resident.busy && resident.conversation == conversation && resident.tip == tip;
  });
  return found == residents_.end() ? nullptr : &*found;
}

Result<bool> Residents::Wake(Resident* resident) {
  const auto at =
      std::ranges::find_if(residents_, [&](const Resident& other) { return &other == resident; });
  residents_.splice(residents_.begin(), residents_, at);
  resident->busy = true;
  if (resident->id != 0) return true;
  if (!MakeRoom()) {
    resident->busy = false;
    return false;
  }
  const Result<ConversationId> id =
      engine_->OpenSnapshot(std::as_bytes(std::span(resident->snapshot)));
  if (!id.ok()) return id.error();
  resident->id = *id;
  resident->snapshot = {};
  return true;
}

Result<Resident*> Residents::Add(std::string conversation, TokenLog log, PlanJournal journal,
                                 std::string_view snapshot, bool* spared) {
  if (!MakeRoom()) return static_cast<Resident*>(nullptr);
  ConversationId id = 0;
  if (!snapshot.empty()) {
    const auto opened = engine_->OpenSnapshot(std::as_bytes(std::span(snapshot)));
    if (opened.ok()) {
      const Result<bool> fits = engine_->GoOnTo(*opened, log, journal);
      if (fits.ok() && *fits) {
        id = *opened;
      } else {
        engine_->Close(*opened);
      }
    }
  }
  *spared = id != 0;
  if (id == 0) {
    MOORING_ASSIGN_OR_RETURN(id, engine_->OpenLog(std::move(log), std::move(journal)));
  }
  residents_.push_front({.conversation = std::move(conversation),
                         .tip = {},
                         .place = {},
                         .memory = {},
                         .busy = true,
                         .id = id,
                         .snapshot = {},
                         .kept = engine_->Find(id)->window().next()});
  return &residents_.front();
}

void Residents::Release(Resident* resident) {
  resident->busy = false;
  if (resident->conversation.empty()) return Drop(resident);
  const LogIndex end = engine_->Find(resident->id)->log().end();
  if (end - resident->kept < kKeepTokens) return;
  resident->kept = end;
  std::string snapshot;
  engine_->AppendSnapshot(resident->id, &snapshot);
  give_away_(resident->conversation, std::move(snapshot));
}

void Residents::Drop(Resident* resident) {
  if (resident->id != 0) engine_->Close(resident->id);
  residents_.remove_if([&](const Resident& other) { return &other == resident; });
}

void Residents::Forget(std::string_view conversation) {
  for (auto at = residents_.begin(); at != residents_.end();) {
    Resident& resident = *at++;
    if (resident.conversation != conversation) continue;
    resident.conversation.clear();
    if (!resident.busy) Drop(&resident);
  }
}

std::optional<WindowView> Residents::Look(std::string_view conversation) const {
  const auto found = std::ranges::find(residents_, conversation, &Resident::conversation);
  if (found == residents_.end() || found->id == 0) return std::nullopt;
  const Conversation& here = *engine_->Find(found->id);
  const std::span<const RecalledSpan> recalled = here.window().Facts().recalled;
  return WindowView{.numbers = NumbersOf(here),
                    .recalled = {recalled.begin(), recalled.end()},
                    .indexed = found->memory ? found->memory->indexed.value : 0};
}

ResidentCounts Residents::Count() const {
  ResidentCounts counts;
  for (const Resident& resident : residents_) {
    counts.in_engine += resident.id != 0 ? 1 : 0;
    counts.parked += resident.id == 0 ? 1 : 0;
    counts.parked_bytes += static_cast<int64_t>(resident.snapshot.size());
  }
  return counts;
}

bool Residents::MakeRoom() {
  if (Count().in_engine < engine_->options().conversations) return true;
  const auto idle = std::find_if(residents_.rbegin(), residents_.rend(), [](const Resident& other) {
    return other.id != 0 && !other.busy;
  });
  if (idle == residents_.rend()) return false;
  engine_->AppendSnapshot(idle->id, &idle->snapshot);
  engine_->Close(std::exchange(idle->id, 0));
  LimitParked();
  return true;
}

void Residents::GiveAwayAll() {
  // The one used last comes last: of a conversation's branches it is the one to keep.
  for (; !residents_.empty(); residents_.pop_back()) {
    Resident& resident = residents_.back();
    CHECK(!resident.busy);
    if (resident.id != 0) {
      engine_->AppendSnapshot(resident.id, &resident.snapshot);
      engine_->Close(std::exchange(resident.id, 0));
    }
    give_away_(std::move(resident.conversation), std::move(resident.snapshot));
  }
}

void Residents::LimitParked() {
  auto bytes = static_cast<size_t>(Count().parked_bytes);
  for (auto at = residents_.end(); bytes > parked_limit_bytes_ && at != residents_.begin();) {
    --at;
    if (at->id != 0 || at->busy) continue;
    bytes -= at->snapshot.size();
    give_away_(std::move(at->conversation), std::move(at->snapshot));
    at = residents_.erase(at);
  }
}

}  // namespace mooring
