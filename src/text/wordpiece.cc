#include "text/wordpiece.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "base/check.h"
#include "text/utf8.h"

namespace mooring {
namespace {

constexpr size_t kMostWordCharacters = 100;
constexpr std::string_view kContinues = "##";

bool IsAscii(uint32_t c) { return c < 0x80; }

// Characters that stand for themselves: scripts that write without spaces. The blocks are those
// that the vocabularies were made with; kana and Hangul are written with spaces or found in pieces.
bool IsIdeograph(uint32_t c) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 8> kBlocks = {{{0x4E00, 0x9FFF},
                                                                     {0x3400, 0x4DBF},
                                                                     {0x20000, 0x2A6DF},
                                                                     {0x2A700, 0x2B73F},
                                                                     {0x2B740, 0x2B81F},
                                                                     {0x2B820, 0x2CEAF},
                                                                     {0xF900, 0xFAFF},
                                                                     {0x2F800, 0x2FA1F}}};
  return std::ranges::any_of(
      kBlocks, [c](const auto& block) { return c >= block.first && c <= block.second; });
}

bool IsSpace(uint32_t c, utf8proc_category_t category) {
  return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
         category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

// Controls, marks of format, and what Unicode has not given out.
bool IsDropped(utf8proc_category_t category) {
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF ||
         category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CO ||
         category == UTF8PROC_CATEGORY_CS;
}

bool IsPunctuation(uint32_t c, utf8proc_category_t category) {
  if (IsAscii(c)) {
    // Also what Unicode calls a symbol: $ + < = > ^ ` | ~
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  }
  return category == UTF8PROC_CATEGORY_PC || category == UTF8PROC_CATEGORY_PD ||
         category == UTF8PROC_CATEGORY_PS || category == UTF8PROC_CATEGORY_PE ||
         category == UTF8PROC_CATEGORY_PI || category == UTF8PROC_CATEGORY_PF ||
         category == UTF8PROC_CATEGORY_PO;
}

// Appends `c` in lower case, decomposed, without nonspacing marks.
void AppendPlain(uint32_t c, std::string* out) {
  if (IsAscii(c)) {
    *out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  // No character decomposes into more (UAX #15 gives 4 for the canonical form).
  std::array<utf8proc_int32_t, 8> parts = {};
  int boundary = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(), UTF8PROC_DECOMPOSE, &boundary);
  CHECK(count >= 0 && count <= std::ssize(parts));
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    const utf8proc_int32_t part = parts[static_cast<size_t>(i)];
    if (utf8proc_category(part) == UTF8PROC_CATEGORY_MN) continue;
    AppendUtf8(static_cast<uint32_t>(utf8proc_tolower(part)), out);
  }
}

// The end of `text` that is read, from after a white space where there is one.
std::string_view EndOf(std::string_view text) {
  if (text.size() <= WordPiece::kMostTextBytes) return text;
  const std::string_view end = text.substr(text.size() - WordPiece::kMostTextBytes);
  const size_t space = end.find_first_of(" \n");
  return space == std::string_view::npos ? end : end.substr(space);
}

// Calls `take` with each word of `text`, cleaned; a word is valid UTF-8 and not empty.
template <typename Take>
void SplitWords(std::string_view text, Take take) {
  std::string word;
  const auto finish = [&] {
    if (!word.empty()) take(word);
    word.clear();
  };
  while (!text.empty()) {
    const Utf8Char next = ReadUtf8(text);
    text.remove_prefix(next.size);
    const uint32_t c = next.code_point;
    if (next.state != Utf8Char::State::kWhole || c == 0xFFFD) continue;
    const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    if (IsSpace(c, category)) {
      finish();
    } else if (IsPunctuation(c, category) || IsIdeograph(c)) {
      finish();
      AppendPlain(c, &word);
      finish();
    } else if (!IsDropped(category)) {
      AppendPlain(c, &word);
    }
  }
  finish();
}

Error BadVocabulary(const std::string& where, std::string expected, std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the vocabulary of the encoder is invalid or unsupported",
               .where = where,
               .expected = std::move(expected),
               .found = std::move(found)};
}

// Whether a word could only be met if text kept its capitals.
bool HasCapital(std::string_view word) {
  const bool special = word.starts_with('[') && word.ends_with(']');
  return !special && std::ranges::any_of(word, [](char c) { return c >= 'A' && c <= 'Z'; });
}

}  // namespace

Result<std::unique_ptr<const WordPiece>> WordPiece::Create(std::vector<std::string> words,
                                                           const std::string& where) {
  if (words.size() > static_cast<size_t>(std::numeric_limits<TokenId>::max())) {
    return BadVocabulary(where, "ids of 31 bits", fmt::format("{} words", words.size()));
  }
  std::unique_ptr<WordPiece> pieces(new WordPiece(std::move(words)));
  pieces->first_.reserve(pieces->words_.size());
  for (size_t id = 0; id < pieces->words_.size(); ++id) {
    const std::string_view word = pieces->words_[id];
    const bool continues = word.starts_with(kContinues) && word.size() > kContinues.size();
    const std::string_view piece = continues ? word.substr(kContinues.size()) : word;
    const std::string line = fmt::format("{}, line {}", where, id + 1);
    if (HasCapital(word)) return BadVocabulary(line, "words in lower case", "a capital letter");
    auto& map = continues ? pieces->next_ : pieces->first_;
    if (!map.emplace(piece, static_cast<TokenId>(id)).second) {
      return BadVocabulary(line, "each word once", "a word a second time");
    }
    pieces->longest_bytes_ = std::max(pieces->longest_bytes_, piece.size());
  }
  for (const auto& [name, id] :
       {std::pair("[CLS]", &pieces->cls_), std::pair("[SEP]", &pieces->sep_),
        std::pair("[UNK]", &pieces->unk_)}) {
    const auto found = pieces->first_.find(name);
    if (found == pieces->first_.end()) {
      return BadVocabulary(where, fmt::format("the word {}", name), "none");
    }
    *id = found->second;
  }
  return std::unique_ptr<const WordPiece>(std::move(pieces));
}

TokenId WordPiece::LongestPiece(const std::unordered_map<std::string_view, TokenId>& pieces,
                                std::string_view rest, size_t* size) const {
  for (size_t bytes = std::min(rest.size(), longest_bytes_); bytes > 0; --bytes) {
    const auto found = pieces.find(rest.substr(0, bytes));
    // Words of the vocabulary may be any bytes: a piece ends where a character does.
    const bool whole =
        bytes == rest.size() || (static_cast<unsigned char>(rest[bytes]) & 0xC0U) != 0x80U;
    if (found == pieces.end() || !whole) continue;
    *size = bytes;
    return found->second;
  }
  return -1;
}

void WordPiece::EncodeWord(std::string_view word, std::vector<TokenId>* ids) const {
  const size_t first_id = ids->size();
  bool known = CountUtf8(word) <= kMostWordCharacters;
  for (std::string_view rest = word; known && !rest.empty();) {
    size_t size = 0;
    const TokenId id = LongestPiece(rest.size() == word.size() ? first_ : next_, rest, &size);
    known = id >= 0;
    if (!known) break;
    ids->push_back(id);
    rest.remove_prefix(size);
  }
  if (known) return;
  ids->resize(first_id);
  ids->push_back(unk_);
}

std::vector<TokenId> WordPiece::Encode(std::string_view text, size_t most) const {
  CHECK(most >= 2);
  std::vector<TokenId> ids = {cls_};
  SplitWords(EndOf(text), [&](std::string_view word) { EncodeWord(word, &ids); });
  if (ids.size() > most - 1) {
    ids.erase(ids.begin() + 1, ids.begin() + static_cast<int64_t>(ids.size() - (most - 2)));
  }
  ids.push_back(sep_);
  return ids;
}

}  // namespace mooring
