#include "text/stop_strings.h"

#include <algorithm>
#include <utility>

namespace mooring {

StopMatcher::StopMatcher(std::vector<std::string> stops) {
  for (std::string& stop : stops) {
    if (stop.empty()) continue;
    Automaton automaton{.stop = std::move(stop), .fallback = {0}};
    const std::string& text = automaton.stop;
    for (size_t i = 1, border = 0; i < text.size(); ++i) {
      while (border > 0 && text[i] != text[border]) border = automaton.fallback[border - 1];
      if (text[i] == text[border]) ++border;
      automaton.fallback.push_back(border);
    }
    automata_.push_back(std::move(automaton));
  }
}

void StopMatcher::Automaton::Step(char c) {
  while (state > 0 && stop[state] != c) state = fallback[state - 1];
  if (stop[state] == c) ++state;
}

std::string StopMatcher::Push(std::string_view text) {
  if (matched_) return {};
  for (const char c : text) {
    held_.push_back(c);
    size_t stop_bytes = 0;
    for (Automaton& automaton : automata_) {
      automaton.Step(c);
      if (automaton.state < automaton.stop.size()) continue;
      stop_bytes = std::max(stop_bytes, automaton.state);
    }
    if (stop_bytes == 0) continue;
    matched_ = true;
    held_.resize(held_.size() - stop_bytes);
    return std::exchange(held_, {});
  }
  size_t keep = 0;
  for (const Automaton& automaton : automata_) keep = std::max(keep, automaton.state);
  std::string released = held_.substr(0, held_.size() - keep);
  held_.erase(0, released.size());
  return released;
}

std::string StopMatcher::Flush() {
  for (Automaton& automaton : automata_) automaton.state = 0;
  return std::exchange(held_, {});
}

}  // namespace mooring
