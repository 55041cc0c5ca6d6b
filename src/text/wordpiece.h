// The tokenizer of sentence encoders: WordPiece (Schuster and Nakajima 2012) as Devlin et al.
// (2019) have it, for vocabularies in lower case.
//
// Text is cleaned (controls and bytes that are no UTF-8 go, white space becomes a space), put in
// lower case without accents (NFD, nonspacing marks dropped), and split at white space, punctuation
// and ideographs. Each word becomes the longest pieces that the vocabulary has, from the left; a
// word of more than 100 characters, or with a rest that has no piece, becomes [UNK]. What looks
// like a special token in the text is text.
//
// Thread rule: immutable after Create; any thread may encode.
#ifndef MOORING_TEXT_WORDPIECE_H_
#define MOORING_TEXT_WORDPIECE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "base/token.h"

namespace mooring {

class WordPiece {
 public:
  // Of a longer text only so many bytes at its end are read; ids that it has at its beginning would
  // be cut off anyway.
  static constexpr size_t kMostTextBytes = size_t{64} << 10;

  // `words` in the order of their ids. kModelInvalid when a special token is missing, a word comes
  // twice, or the words are not in lower case; `where` is what errors call them.
  static Result<std::unique_ptr<const WordPiece>> Create(std::vector<std::string> words,
                                                         const std::string& where);

  // [CLS], the ids of `text`, [SEP]: at most `most` in all, the last ones of the text.
  // REQUIRES: most >= 2.
  std::vector<TokenId> Encode(std::string_view text, size_t most) const;

  size_t size() const { return words_.size(); }

 private:
  explicit WordPiece(std::vector<std::string> words) : words_(std::move(words)) {}

  // `word` is cleaned and not empty.
  void EncodeWord(std::string_view word, std::vector<TokenId>* ids) const;
  // The longest piece that `rest` begins with, its bytes in `*size`; -1 when there is none.
  TokenId LongestPiece(const std::unordered_map<std::string_view, TokenId>& pieces,
                       std::string_view rest, size_t* size) const;

  std::vector<std::string> words_;
  // Views into words_: pieces that begin a word, and, without their "##", those that go on in one.
  std::unordered_map<std::string_view, TokenId> first_;
  std::unordered_map<std::string_view, TokenId> next_;
  size_t longest_bytes_ = 0;  // of any piece
  TokenId cls_ = 0, sep_ = 0, unk_ = 0;
};

}  // namespace mooring

#endif  // MOORING_TEXT_WORDPIECE_H_
