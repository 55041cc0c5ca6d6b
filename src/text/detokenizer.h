// Token ids, one at a time, to text that is whole UTF-8 at every moment.
//
// A character may lie across tokens, so up to three bytes are held until it is whole. Bytes that
// can never become a character come out at once as U+FFFD, one for each maximal part, so what a
// person sees does not depend on how the tokens were grouped. Special tokens give no text. For the
// bytes themselves, unrepaired, there is Tokenizer::Decode.
//
// Thread rule: one stream belongs to one thread at a time; the tokenizer outlives it.
#ifndef MOORING_TEXT_DETOKENIZER_H_
#define MOORING_TEXT_DETOKENIZER_H_

#include <string>

#include "base/token.h"
#include "text/tokenizer.h"

namespace mooring {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer, bool show_special = false)
      : tokenizer_(&tokenizer), show_special_(show_special) {}

  // The text that `id` completes; often empty, never an incomplete character.
  std::string Push(TokenId id);

  // The end: what is held can no longer become a character. The stream can then start anew.
  std::string Flush();

  // Bytes held back, at most 3.
  size_t held_bytes() const { return held_.size(); }

 private:
  const Tokenizer* tokenizer_;
  bool show_special_;
  std::string held_;
};

}  // namespace mooring

#endif  // MOORING_TEXT_DETOKENIZER_H_
