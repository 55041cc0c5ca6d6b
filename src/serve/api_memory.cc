// What the model can see of a conversation, as numbers and as spans of its log.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answer.h"
#include "serve/api.h"
#include "serve/json_body.h"

namespace mooring {
namespace {

// The spans cover the log in its order.
Json SpansJson(const WindowView& view) {
  Json spans = Json::array();
  const auto add = [&spans](int64_t from, int64_t to, std::string_view state, double share) {
    if (from >= to) return;
    spans.push_back({{"from", from}, {"to", to}, {"state", state}, {"share", share}});
  };
  const WindowNumbers& numbers = view.numbers;
  const int64_t recent = numbers.log - numbers.recent;
  // Out of sight: what is in the index can come back.
  const auto add_unseen = [&](int64_t from, int64_t to) {
    const int64_t known = std::clamp(view.indexed, from, std::max(from, to));
    add(from, known, "archived", 0.0);
    add(known, to, "text", 0.0);
  };
  add(0, numbers.anchors, "anchor", 1.0);
  std::vector<RecalledSpan> recalled = view.recalled;
  std::ranges::sort(recalled, {}, [](const RecalledSpan& span) { return span.range.from; });
  int64_t at = numbers.anchors;
  for (const RecalledSpan& span : recalled) {
    const int64_t from = std::max(at, span.range.from.value);
    const int64_t to = std::min(recent, span.range.to.value);
    if (from >= to) continue;
    add_unseen(at, from);
    add(from, to, "recalled", 1.0);
    at = to;
  }
  add_unseen(at, recent);
  add(recent, numbers.log, "recent", 1.0);
  return spans;
}

// What a conversation will see once it is in the engine again.
WindowView ViewOfParked(const ConversationInfo& info, const Host& host) {
  const WindowShape& shape = host.engine().options().window;
  WindowView view;
  view.numbers.log = info.log_end.value;
  view.numbers.capacity = shape.capacity;
  const int64_t held = std::min<int64_t>(view.numbers.log, shape.capacity);
  view.numbers.anchors = std::min<int64_t>(shape.anchors, held);
  view.numbers.recent = held - view.numbers.anchors;
  view.indexed = host.recalls() ? view.numbers.log : 0;
  return view;
}

}  // namespace

void Api::Memory(const Call& call) {
  const auto kept = std::make_shared<Call>(call);
  const auto info = std::make_shared<Result<ConversationInfo>>(Error{});
  host_->WithStore(
      {[kept, info](Store& store) { *info = store.Find(kept->owner, kept->parts[0]); },
       [this, kept, info](const Status& /*durable*/) {
         if (!info->ok()) return SendError(*kept, ErrorOf(info->error()));
         host_->Look((*info)->id, [this, kept, info](const std::optional<WindowView>& seen) {
           const bool current = seen && seen->numbers.log >= (*info)->log_end.value;
           const WindowView view = current ? *seen : ViewOfParked(**info, *host_);
           const WindowNumbers& numbers = view.numbers;
           SendJson(*kept, {{"object", "conversation.memory"},
                            {"conversation", (*info)->id},
                            {"turn", (*info)->turns},
                            {"log_tokens", numbers.log},
                            {"window", WindowJson(numbers)},
                            {"spans", SpansJson(view)},
                            {"counts",
                             {{"evicted", numbers.forgotten()}, {"recalled", numbers.recalled}}}});
         });
       }});
}

}  // namespace mooring
