// Pre-tokenizers: hand-written scanners that cut text into the pieces merges may not cross, the way
// the regular expressions of the published models do, in one pass and without a stack.
//
// Pieces are never empty, and laid end to end they are the text. A byte that belongs to no valid
// UTF-8 character counts as one character of class "other".
//
// Thread rule: pure functions.
#ifndef MOORING_TEXT_PRETOKENIZER_H_
#define MOORING_TEXT_PRETOKENIZER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace mooring {

enum class CharClass : uint8_t {
  kOther,
  kLetter,
  kNumber,
  kSpace,
  kDigitOnly,  // a number to the digit splitter, whose tables are newer, and "other" to the rest
};

CharClass ClassOf(uint32_t code_point);

// The version of Unicode that the letters of the class table have.
std::string_view UnicodeVersion();

enum class PreTokenizer : uint8_t {
  kGpt2,    // contractions, words, numbers, other signs, spaces
  kSmollm,  // every digit alone, then kGpt2 on what lies between
};

// By the name that model files use.
std::optional<PreTokenizer> FindPreTokenizer(std::string_view name);

// Bytes of the first piece of `text`, what came before being irrelevant. REQUIRES: not empty.
size_t NextPieceBytes(PreTokenizer pre, std::string_view text);

}  // namespace mooring

#endif  // MOORING_TEXT_PRETOKENIZER_H_
