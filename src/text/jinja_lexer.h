// Cuts a chat template into text and the tokens of its tags, with the whitespace rules that Hugging
// Face renders templates under: trim_blocks and lstrip_blocks on, one final newline dropped, and
// the `-` and `+` marks.
//
// Thread rule: pure.
#ifndef MOORING_TEXT_JINJA_LEXER_H_
#define MOORING_TEXT_JINJA_LEXER_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mooring::jinja {

enum class LexKind {
  kText,
  kBlockBegin,
  kBlockEnd,
  kOutputBegin,
  kOutputEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Lexeme {
  LexKind kind = LexKind::kEnd;
  int line = 0;
  std::string text;  // strings are unescaped
};

// Ends with one kEnd.
Result<std::vector<Lexeme>> Lex(std::string_view source);

// The one error of this room for templates that cannot be used.
Error TemplateError(std::string what, int line, std::string found);

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_LEXER_H_
