#include "talk/spelling.h"

#include <algorithm>
#include <string>
#include <vector>

namespace mooring {

std::string Spelled(const TokenLog& log, const Tokenizer& tokenizer, const LogRange& range) {
  std::string text;
  for (LogIndex at = range.from; at < range.to; at = at + 1) {
    if (!tokenizer.IsSpecial(log.token(at))) text += tokenizer.PieceBytes(log.token(at));
  }
  return text;
}

std::optional<LogRange> FindSpelled(const TokenLog& log, const Tokenizer& tokenizer,
                                    const LogRange& message, std::string_view text) {
  if (text.empty()) return LogRange{message.from, message.from};
  std::string spelled;
  std::vector<size_t> ends = {0};  // of each token in `spelled`, from where the first begins
  for (LogIndex at = message.from; at < message.to; at = at + 1) {
    if (!tokenizer.IsSpecial(log.token(at))) spelled += tokenizer.PieceBytes(log.token(at));
    ends.push_back(spelled.size());
  }
  // A template's own words may stand before the text as well as behind it.
  for (const size_t at : {spelled.find(text), spelled.rfind(text)}) {
    if (at == std::string::npos) return std::nullopt;
    const auto first = std::ranges::upper_bound(ends, at) - 1;  // a special token spells nothing
    const auto last = std::ranges::lower_bound(ends, at + text.size());
    if (*first != at || *last != at + text.size()) continue;
    return LogRange{message.from + (first - ends.begin()), message.from + (last - ends.begin())};
  }
  return std::nullopt;
}

}  // namespace mooring
