// Finds stop strings in text that arrives in parts.
//
// Text comes out as soon as it cannot belong to a stop string any more: what is held is exactly the
// longest end of the text so far that starts some stop string. The stop string that is complete
// first wins (of several that end together, the longest); text before it comes out, it and all that
// follows does not. How the text is divided into parts makes no difference.
//
// Thread rule: one matcher belongs to one thread at a time.
#ifndef MOORING_TEXT_STOP_STRINGS_H_
#define MOORING_TEXT_STOP_STRINGS_H_

#include <string>
#include <string_view>
#include <vector>

namespace mooring {

class StopMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that can be released now. After a match: what came before it, once, then nothing.
  std::string Push(std::string_view text);

  // The end of the text: what was held is no stop string after all.
  std::string Flush();

  bool matched() const { return matched_; }
  size_t held_bytes() const { return held_.size(); }

 private:
  // Knuth, Morris and Pratt's automaton for one stop string.
  struct Automaton {
    std::string stop;
    std::vector<size_t> fallback;  // [stop bytes] longest proper border of each prefix
    size_t state = 0;              // bytes of `stop` that the text now ends with

    void Step(char c);
  };

  std::vector<Automaton> automata_;
  std::string held_;
  bool matched_ = false;
};

}  // namespace mooring

#endif  // MOORING_TEXT_STOP_STRINGS_H_
