#include "text/pretokenizer.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "text/utf8.h"

namespace mooring {
namespace {

struct ClassRange {
  uint32_t first;
  uint32_t last;
  CharClass kind;
};

#include "text/unicode_classes.inc"

CharClass FindClass(uint32_t code_point) {
  const auto* range =
      std::upper_bound(std::begin(kClassRanges), std::end(kClassRanges), code_point,
                       [](uint32_t value, const ClassRange& r) { return value < r.first; });
  if (range == std::begin(kClassRanges)) return CharClass::kOther;
  --range;
  return code_point <= range->last ? range->kind : CharClass::kOther;
}

constexpr std::array<CharClass, 128> AsciiClasses() {
  std::array<CharClass, 128> classes{};
  for (const ClassRange& range : kClassRanges) {
    for (uint32_t c = range.first; c <= range.last && c < classes.size(); ++c) {
      classes[c] = range.kind;
    }
  }
  return classes;
}
constexpr std::array<CharClass, 128> kAsciiClasses = AsciiClasses();

struct Char {
  CharClass kind;
  size_t bytes;
};

// REQUIRES: at < text.size().
Char CharAt(std::string_view text, size_t at) {
  const auto byte = static_cast<uint8_t>(text[at]);
  if (byte < 128) return {kAsciiClasses[byte], 1};
  const Utf8Char c = ReadUtf8(text.substr(at));
  if (c.state != Utf8Char::State::kWhole) return {CharClass::kOther, 1};
  return {FindClass(c.code_point), c.size};
}

bool IsDigit(CharClass kind) { return kind == CharClass::kNumber || kind == CharClass::kDigitOnly; }

// Walks one text under one pre-tokenizer's view of the classes. Where a piece must end before any
// digit (kSmollm), the scanner sees the end of the text there, as the two-pass original does.
class Scanner {
 public:
  Scanner(PreTokenizer pre, std::string_view text)
      : text_(text), digits_end_(pre == PreTokenizer::kSmollm) {}

  bool AtEnd(size_t at) const {
    if (at >= text_.size()) return true;
    return digits_end_ && IsDigit(CharAt(text_, at).kind);
  }
  // REQUIRES: !AtEnd(at).
  Char At(size_t at) const {
    Char c = CharAt(text_, at);
    if (c.kind == CharClass::kDigitOnly) c.kind = CharClass::kOther;
    return c;
  }
  bool StartsWith(size_t at, std::string_view what) const {
    return text_.substr(at, what.size()) == what;
  }
  // The end of the run of `kind` that starts at `at`.
  size_t RunEnd(size_t at, CharClass kind) const {
    while (!AtEnd(at)) {
      const Char c = At(at);
      if (c.kind != kind) break;
      at += c.bytes;
    }
    return at;
  }

 private:
  std::string_view text_;
  bool digits_end_;
};

// `\s+(?!\S)|\s+`: all spaces at the end; before something else all but the last, which goes with
// what follows or stands alone.
size_t SpacesEnd(const Scanner& scan) {
  size_t at = 0;
  size_t last = 0;
  while (!scan.AtEnd(at) && scan.At(at).kind == CharClass::kSpace) {
    last = at;
    at += scan.At(at).bytes;
  }
  return scan.AtEnd(at) || last == 0 ? at : last;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
size_t Gpt2PieceBytes(const Scanner& scan) {
  for (const std::string_view contraction : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
    if (scan.StartsWith(0, contraction)) return contraction.size();
  }
  const size_t start = scan.StartsWith(0, " ") ? 1 : 0;
  if (scan.AtEnd(start) || scan.At(start).kind == CharClass::kSpace) return SpacesEnd(scan);
  return scan.RunEnd(start, scan.At(start).kind);
}

}  // namespace

CharClass ClassOf(uint32_t code_point) { return FindClass(code_point); }

std::string_view UnicodeVersion() { return kUnicodeVersion; }

std::optional<PreTokenizer> FindPreTokenizer(std::string_view name) {
  if (name == "smollm") return PreTokenizer::kSmollm;
  if (name == "gpt-2" || name == "gpt2") return PreTokenizer::kGpt2;
  return std::nullopt;
}

size_t NextPieceBytes(PreTokenizer pre, std::string_view text) {
  const Char first = CharAt(text, 0);
  if (pre == PreTokenizer::kSmollm && IsDigit(first.kind)) return first.bytes;
  return Gpt2PieceBytes(Scanner(pre, text));
}

}  // namespace mooring
