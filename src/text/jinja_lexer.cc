#include "text/jinja_lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "text/jinja_value.h"
#include "text/utf8.h"

namespace mooring::jinja {
namespace {

bool IsNameStart(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsBlank(char c) { return kWhitespace.find(c) != std::string_view::npos; }

std::string NormaliseNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
    } else if (i + 1 == source.size() || source[i + 1] != '\n') {
      out += '\n';
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  Result<std::vector<Lexeme>> Run() {
    while (at_ < source_.size()) {
      const size_t open = FindOpening();
      std::string_view text = source_.substr(at_, open - at_);
      if (open == source_.size()) {
        Put(LexKind::kText, std::string(text));
        break;
      }
      const char kind = source_[open + 1];
      const char mark = open + 2 < source_.size() ? source_[open + 2] : ' ';
      PutText(text, kind, mark);
      Advance(open - at_ + 2);
      if (mark == '-' || (mark == '+' && kind != '{')) Advance(1);
      MOORING_RETURN_IF_ERROR(kind == '#' ? Comment() : Tag(kind == '%'));
    }
    Put(LexKind::kEnd, {});
    return std::move(lexemes_);
  }

 private:
  size_t FindOpening() const {
    for (size_t i = source_.find('{', at_); i != std::string_view::npos;
         i = source_.find('{', i + 1)) {
      if (i + 1 < source_.size() &&
          std::string_view("{%#").find(source_[i + 1]) != std::string_view::npos) {
        return i;
      }
    }
    return source_.size();
  }

  void Advance(size_t bytes) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes),
                                         '\n'));
    at_ += bytes;
  }

  void Put(LexKind kind, std::string text) {
    if (kind == LexKind::kText && text.empty()) return;
    lexemes_.push_back({kind, line_, std::move(text)});
  }

  // The text before a tag, less what the tag takes away to its left.
  void PutText(std::string_view text, char kind, char mark) {
    if (mark == '-') {
      text = Strip(text, kWhitespace, false, true);
    } else if (mark != '+' && kind != '{') {
      const size_t newline = text.rfind('\n');
      const size_t line_begin = newline == std::string_view::npos ? 0 : newline + 1;
      const bool at_line_start = line_begin > 0 || line_starts_;
      const std::string_view indent = text.substr(line_begin);
      if (at_line_start && std::all_of(indent.begin(), indent.end(), IsBlank)) {
        text = text.substr(0, line_begin);
      }
    }
    Put(LexKind::kText, std::string(text));
  }

  // Eats a tag's closing and what it takes away to its right. `mark` is what stood before it.
  void Close(char mark, bool trims_newline) {
    const size_t begin = at_;
    Advance(2);
    if (mark == '-') {
      size_t blanks = 0;
      while (at_ + blanks < source_.size() && IsBlank(source_[at_ + blanks])) ++blanks;
      Advance(blanks);
    } else if (mark != '+' && trims_newline && source_.substr(at_, 1) == "\n") {
      Advance(1);
    }
    line_starts_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  Status Comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) return TemplateError("a comment has no end", line_, "{#");
    const char mark = end > at_ ? source_[end - 1] : ' ';
    Advance(end - at_);
    Close(mark, true);
    return {};
  }

  // `{% raw %}` and its body, when the tag at hand is one.
  Result<bool> Raw() {
    size_t i = source_.find_first_not_of(kWhitespace, at_);
    if (i == std::string_view::npos || source_.substr(i, 3) != "raw") return false;
    i = source_.find_first_not_of(kWhitespace, i + 3);
    if (i == std::string_view::npos) return false;
    const char mark = source_[i] == '-' || source_[i] == '+' ? source_[i] : ' ';
    if (mark != ' ') ++i;
    if (source_.substr(i, 2) != "%}") return false;
    const int line = line_;
    Advance(i - at_);
    Close(mark, true);
    for (size_t open = source_.find("{%", at_); open != std::string_view::npos;
         open = source_.find("{%", open + 2)) {
      size_t j = open + 2;
      const char open_mark = j < source_.size() ? source_[j] : ' ';
      if (open_mark == '-' || open_mark == '+') ++j;
      j = source_.find_first_not_of(kWhitespace, j);
      if (j == std::string_view::npos || source_.substr(j, 6) != "endraw") continue;
      j = source_.find_first_not_of(kWhitespace, j + 6);
      if (j == std::string_view::npos) continue;
      const char close_mark = source_[j] == '-' || source_[j] == '+' ? source_[j] : ' ';
      if (close_mark != ' ') ++j;
      if (source_.substr(j, 2) != "%}") continue;
      PutText(source_.substr(at_, open - at_), '%', open_mark);
      Advance(j - at_);
      Close(close_mark, true);
      return true;
    }
    return TemplateError("a raw block has no end", line, "{% raw %}");
  }

  Status Tag(bool is_block) {
    if (is_block) {
      MOORING_ASSIGN_OR_RETURN(const bool raw, Raw());
      if (raw) return {};
    }
    const int line = line_;
    Put(is_block ? LexKind::kBlockBegin : LexKind::kOutputBegin, {});
    const std::string_view closing = is_block ? "%}" : "}}";
    int open_brackets = 0;
    for (;;) {
      while (at_ < source_.size() && IsBlank(source_[at_])) Advance(1);
      if (at_ >= source_.size()) {
        return TemplateError("a tag has no end", line, is_block ? "{%" : "{{");
      }
      const bool marked = source_[at_] == '-' || (is_block && source_[at_] == '+');
      if (open_brackets == 0 && source_.substr(at_ + (marked ? 1 : 0), 2) == closing) {
        const char mark = marked ? source_[at_] : ' ';
        if (marked) Advance(1);
        Put(is_block ? LexKind::kBlockEnd : LexKind::kOutputEnd, {});
        Close(mark, is_block);
        return {};
      }
      const char c = source_[at_];
      if (c == '(' || c == '[' || c == '{') ++open_brackets;
      if (c == ')' || c == ']' || c == '}') --open_brackets;
      MOORING_RETURN_IF_ERROR(Word());
    }
  }

  Status Word() {
    const char c = source_[at_];
    size_t end = at_ + 1;
    if (IsNameStart(c)) {
      while (end < source_.size() && (IsNameStart(source_[end]) || IsDigit(source_[end]))) ++end;
      return Take(LexKind::kName, end);
    }
    if (IsDigit(c)) return Number();
    if (c == '"' || c == '\'') return String(c);
    for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"}) {
      if (source_.substr(at_, 2) == two) return Take(LexKind::kOperator, at_ + 2);
    }
    if (std::string_view("+-*/%~()[]{}<>=.,:|").find(c) == std::string_view::npos) {
      return TemplateError("a sign is not understood", line_, std::string(1, c));
    }
    return Take(LexKind::kOperator, end);
  }

  Status Take(LexKind kind, size_t end) {
    Put(kind, std::string(source_.substr(at_, end - at_)));
    Advance(end - at_);
    return {};
  }

  Status Number() {
    size_t end = at_;
    const auto digits = [&] {
      while (end < source_.size() && (IsDigit(source_[end]) || source_[end] == '_')) ++end;
    };
    digits();
    LexKind kind = LexKind::kInteger;
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigit(source_[end + 1])) {
      kind = LexKind::kFloat;
      ++end;
      digits();
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (exponent < source_.size() && IsDigit(source_[exponent])) {
        kind = LexKind::kFloat;
        end = exponent;
        digits();
      }
    }
    std::string text(source_.substr(at_, end - at_));
    text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
    Put(kind, std::move(text));
    Advance(end - at_);
    return {};
  }

  Status String(char quote) {
    std::string text;
    for (size_t i = at_ + 1; i < source_.size(); ++i) {
      const char c = source_[i];
      if (c == quote) {
        Put(LexKind::kString, std::move(text));
        Advance(i + 1 - at_);
        return {};
      }
      if (c != '\\' || i + 1 == source_.size()) {
        text += c;
      } else {
        Unescape(&i, &text);
      }
    }
    return TemplateError("a string has no end", line_, std::string(1, quote));
  }

  // `*at` is at a backslash; leaves it at the last character of the escape.
  void Unescape(size_t* at, std::string* text) const {
    const char c = source_[++*at];
    const std::string_view letters = "ntrabfv0";
    const std::string_view meanings("\n\t\r\a\b\f\v\0", 8);
    const size_t letter = letters.find(c);
    const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (letter != std::string_view::npos) {
      *text += meanings[letter];
    } else if (c == '\\' || c == '\'' || c == '"') {
      *text += c;
    } else if (const auto code_point = Hex(*at + 1, digits)) {
      AppendUtf8(*code_point, text);
      *at += digits;
    } else if (c != '\n') {
      *text += '\\';
      *text += c;
    }
  }

  std::optional<uint32_t> Hex(size_t begin, size_t digits) const {
    if (digits == 0 || begin + digits > source_.size()) return std::nullopt;
    uint32_t number = 0;
    for (const char c : source_.substr(begin, digits)) {
      if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return std::nullopt;
      const auto digit = static_cast<uint32_t>(IsDigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
      number = number * 16 + digit;
    }
    const bool scalar = number < 0xD800 || (number > 0xDFFF && number <= 0x10FFFF);
    return scalar ? std::optional<uint32_t>(number) : std::nullopt;
  }

  std::string_view source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starts_ = true;
  std::vector<Lexeme> lexemes_;
};

}  // namespace

Error TemplateError(std::string what, int line, std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the chat template cannot be used: " + std::move(what),
               .where = fmt::format("chat template, line {}", line),
               .found = std::move(found),
               .remedy = "give another with --template NAME|FILE"};
}

Result<std::vector<Lexeme>> Lex(std::string_view source) {
  const std::string text = NormaliseNewlines(source);
  return Lexer(text).Run();
}

}  // namespace mooring::jinja
