// Which tokens are the same word to a search: each token of a vocabulary as the number of a term.
// A term is what a token spells, in lower case and without the space that leads it, so that "
// Gate", "gate" and "Gate" are one. An index of words then holds small integers and no text.
//
// Not a term: tokens that only a template can write (special and user-defined ones) and tokens that
// spell nothing but white space. Bytes that are no whole UTF-8 stand for themselves.
//
// Thread rule: const after it is made; one for all conversations of a tokenizer.
#ifndef MOORING_TALK_TERM_TABLE_H_
#define MOORING_TALK_TERM_TABLE_H_

#include <cstdint>
#include <vector>

#include "base/token.h"
#include "text/tokenizer.h"

namespace mooring {

using TermId = uint32_t;
inline constexpr TermId kNoTerm = UINT32_MAX;

class TermTable {
 public:
  // Does not keep the tokenizer.
  explicit TermTable(const Tokenizer& tokenizer);

  // kNoTerm for a token that is not to be found by, and for one outside the vocabulary.
  TermId term(TokenId token) const {
    return token >= 0 && static_cast<size_t>(token) < terms_.size()
               ? terms_[static_cast<size_t>(token)]
               : kNoTerm;
  }
  // Terms are 0 to term_count() - 1, in the order of their first tokens.
  uint32_t term_count() const { return term_count_; }
  // The same for tables that give every token the same term: what an index on disk must match.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  std::vector<TermId> terms_;  // [vocabulary]
  uint32_t term_count_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace mooring

#endif  // MOORING_TALK_TERM_TABLE_H_
