#include "talk/term_table.h"

#include <utf8proc.h>
#include <xxhash.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

#include "text/utf8.h"

namespace mooring {
namespace {

constexpr std::string_view kWhiteSpace = " \t\n\v\f\r";

// Unicode's full case folding: what differs in case alone becomes equal.
std::string Folded(std::string_view piece) {
  if (piece.starts_with(' ')) piece.remove_prefix(1);
  if (piece.empty() || !IsValidUtf8(piece)) return std::string(piece);
  utf8proc_uint8_t* bytes = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(piece.data()),
                   static_cast<utf8proc_ssize_t>(piece.size()), &bytes, UTF8PROC_CASEFOLD);
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(bytes, &std::free);
  if (size < 0) return std::string(piece);
  return std::string(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

bool OnlyFromTemplates(const Tokenizer& tokenizer, TokenId token) {
  return tokenizer.IsSpecial(token) || tokenizer.FindSpecial(tokenizer.PieceBytes(token)) == token;
}

}  // namespace

TermTable::TermTable(const Tokenizer& tokenizer) {
  terms_.assign(static_cast<size_t>(tokenizer.vocab_size()), kNoTerm);
  std::unordered_map<std::string, TermId> known;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    if (OnlyFromTemplates(tokenizer, token)) continue;
    std::string folded = Folded(tokenizer.PieceBytes(token));
    if (folded.find_first_not_of(kWhiteSpace) == std::string::npos) continue;
    const auto [found, is_new] = known.try_emplace(std::move(folded), term_count_);
    if (is_new) ++term_count_;
    terms_[static_cast<size_t>(token)] = found->second;
  }
  fingerprint_ = XXH3_64bits(terms_.data(), terms_.size() * sizeof(TermId));
}

}  // namespace mooring
