#include "text/detokenizer.h"

#include <string_view>

#include "text/utf8.h"

namespace mooring {

std::string Detokenizer::Push(TokenId id) {
  if (id < 0 || id >= tokenizer_->vocab_size()) return {};
  if (tokenizer_->IsSpecial(id) && !show_special_) return {};
  held_ += tokenizer_->PieceBytes(id);
  std::string text;
  std::string_view rest = held_;
  while (!rest.empty()) {
    const Utf8Char c = ReadUtf8(rest);
    if (c.state == Utf8Char::State::kIncomplete) break;
    text += c.state == Utf8Char::State::kWhole ? rest.substr(0, c.size) : kReplacementCharacter;
    rest.remove_prefix(c.size);
  }
  held_.erase(0, held_.size() - rest.size());
  return text;
}

std::string Detokenizer::Flush() {
  const bool cut_short = !held_.empty();
  held_.clear();
  return cut_short ? std::string(kReplacementCharacter) : std::string();
}

}  // namespace mooring
