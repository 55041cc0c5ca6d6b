#include "apps/memory_view.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace mooring {
namespace {

// How many of `cells` show `part` of `whole`: none for nothing, else one at least.
int CellsOf(int64_t part, int64_t whole, int cells) {
  if (part <= 0 || whole <= 0) return 0;
  const double share = static_cast<double>(part) / static_cast<double>(whole);
  return std::clamp(static_cast<int>(share * cells + 0.5), 1, cells);
}

void AppendCells(std::string_view glyph, int count, std::string_view color, bool colored,
                 std::string* out) {
  if (count == 0) return;
  if (colored) *out += color;
  for (int i = 0; i < count; ++i) *out += glyph;
  if (colored) *out += "\x1b[0m";
}

}  // namespace

MemoryView ViewOf(const Conversation& conversation) {
  const Window& window = conversation.window();
  MemoryView view;
  view.log_tokens = conversation.log().end().value;
  view.capacity = window.shape().capacity;
  // The token that was said last and not read yet will be attended to by itself.
  const int64_t held = std::min<int64_t>(
      {view.capacity, view.log_tokens, window.attended() + conversation.pending_rows()});
  view.anchors = std::min<int64_t>(window.shape().anchors, held);
  for (const RecalledSpan& span : window.Facts().recalled) view.recalled.push_back(span.range);
  view.recent = held - view.anchors - view.recalled_tokens();
  return view;
}

int64_t MemoryView::recalled_tokens() const {
  int64_t tokens = 0;
  for (const LogRange& range : recalled) tokens += range.tokens();
  return tokens;
}

Json WindowJson(const MemoryView& view) {
  return {{"capacity", view.capacity},
          {"anchors", view.anchors},
          {"recalled", view.recalled_tokens()},
          {"recent", view.recent}};
}

std::string MemoryStrip(const MemoryView& view, const StripStyle& style) {
  const int anchors = CellsOf(view.anchors, view.log_tokens, style.cells / 3);
  int recent = CellsOf(view.recent, view.log_tokens, style.cells - anchors);
  int forgotten = 0;
  if (view.forgotten() > 0) {
    recent = std::min(recent, style.cells - anchors - 1);
    forgotten = style.cells - anchors - recent;
  } else if (view.log_tokens > 0) {
    recent = style.cells - anchors;
  }
  const int empty = style.cells - anchors - recent - forgotten;
  std::string strip = "[";
  AppendCells(style.unicode ? "▓" : "#", anchors, "\x1b[36m", style.color, &strip);
  // Where in what is out of sight each span that was called back begins.
  const int64_t hidden = view.log_tokens - view.anchors - view.recent;
  std::set<int> marks;
  for (const LogRange& range : view.recalled) {
    const double at = static_cast<double>(range.from.value - view.anchors) /
                      static_cast<double>(std::max<int64_t>(1, hidden));
    marks.insert(std::clamp(static_cast<int>(at * forgotten), 0, std::max(0, forgotten - 1)));
  }
  for (int cell = 0; cell < forgotten; ++cell) {
    if (marks.contains(cell)) {
      AppendCells(style.unicode ? "◆" : "*", 1, "\x1b[35m", style.color, &strip);
    } else {
      AppendCells(style.unicode ? "·" : ".", 1, "\x1b[2m", style.color, &strip);
    }
  }
  AppendCells(style.unicode ? "█" : "=", recent, "\x1b[32m", style.color, &strip);
  strip.append(static_cast<size_t>(empty), ' ');
  return strip + "]";
}

std::string MemorySentence(const MemoryView& view) {
  if (view.log_tokens == 0) {
    return fmt::format("Nothing has been said yet; room for {} tokens", Grouped(view.capacity));
  }
  std::string text =
      fmt::format("Remembers {} of {} tokens: {} anchors, ", Grouped(view.remembered()),
                  Grouped(view.log_tokens), Grouped(view.anchors));
  if (!view.recalled.empty())
    text += fmt::format("{} called back, ", Grouped(view.recalled_tokens()));
  text += fmt::format("{} recent", Grouped(view.recent));
  if (view.forgotten() > 0) text += fmt::format("; {} out of sight", Grouped(view.forgotten()));
  return text;
}

}  // namespace mooring
