// The lexemes of a template one after another, as a parser walks through them, and the first error.
//
// After the first error every question is still answered, so that a parser need not ask at each
// step whether it failed.
//
// Thread rule: one thread.
#ifndef MOORING_TEXT_JINJA_CURSOR_H_
#define MOORING_TEXT_JINJA_CURSOR_H_

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_lexer.h"
#include "text/jinja_parser.h"

namespace mooring::jinja {

class LexemeCursor {
 public:
  // What Lex made: it ends with one kEnd.
  explicit LexemeCursor(std::vector<Lexeme> lexemes) : lexemes_(std::move(lexemes)) {}

  const Lexeme& Here() const { return lexemes_[at_]; }
  const Lexeme& Ahead(size_t count) const {
    return lexemes_[std::min(at_ + count, lexemes_.size() - 1)];
  }
  bool IsKind(LexKind kind) const { return Here().kind == kind; }
  bool IsOp(std::string_view op) const { return IsKind(LexKind::kOperator) && Here().text == op; }
  bool IsWord(std::string_view word) const { return IsKind(LexKind::kName) && Here().text == word; }

  // The end stays where it is.
  void Skip(size_t count = 1) { at_ = std::min(at_ + count, lexemes_.size() - 1); }
  std::string Take() {
    std::string text = Here().text;
    Skip();
    return text;
  }
  bool TakeOp(std::string_view op) { return TakeIf(IsOp(op)); }
  bool TakeWord(std::string_view word) { return TakeIf(IsWord(word)); }

  // Take what must come next, or fail.
  void NeedOp(std::string_view op) {
    if (!TakeOp(op)) FailExpecting(fmt::format("'{}'", op));
  }
  void NeedKind(LexKind kind, std::string_view expected) {
    if (!TakeIf(IsKind(kind))) FailExpecting(expected);
  }
  std::string NeedName() {
    if (IsKind(LexKind::kName)) return Take();
    FailExpecting("a name");
    return {};
  }

  bool failed() const { return error_.has_value(); }
  const Error& error() const { return *error_; }  // REQUIRES: failed()
  void Fail(std::string what, std::string found) {
    if (!failed()) error_ = TemplateError(std::move(what), Here().line, std::move(found));
  }
  void FailExpecting(std::string_view expected) {
    Fail(fmt::format("{} is missing", expected), fmt::format("'{}'", Here().text));
  }

  // One level deeper while it lives; fails beyond kMaxNesting.
  class Nesting {
   public:
    explicit Nesting(LexemeCursor* cursor) : cursor_(cursor) {
      if (++cursor_->nesting_ > kMaxNesting) {
        cursor_->Fail(fmt::format("it nests deeper than {}", kMaxNesting), cursor_->Here().text);
      }
    }
    ~Nesting() { --cursor_->nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;

   private:
    LexemeCursor* cursor_;
  };

 private:
  bool TakeIf(bool matches) {
    if (matches) Skip();
    return matches;
  }

  std::vector<Lexeme> lexemes_;
  size_t at_ = 0;
  int nesting_ = 0;
  std::optional<Error> error_;
};

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_CURSOR_H_
