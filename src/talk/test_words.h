// A small vocabulary of whole words for this room's tests: each word as "word", "Word", " word" and
// " Word", the bytes, a control token "<|end|>" and a user-defined one "<tool>".
//
// Thread rule: const after it is made.
#ifndef MOORING_TALK_TEST_WORDS_H_
#define MOORING_TALK_TEST_WORDS_H_

#include <cctype>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "talk/term_table.h"
#include "text/tokenizer.h"
#include "text/utf8.h"
#include "text/vocab.h"

namespace mooring {

class TestWords {
 public:
  explicit TestWords(const std::vector<std::string>& words) {
    VocabSpec spec;
    spec.model = "gpt2";
    spec.pre = "gpt2";
    for (int byte = 0; byte < 256; ++byte) {
      spec.tokens.push_back(Spelling(std::string(1, static_cast<char>(byte))));
    }
    for (const std::string& word : words) {
      std::string capital = word;
      capital[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(word[0])));
      for (const std::string& piece : {word, capital, " " + word, " " + capital}) {
        if (known_.insert({piece, 0}).second) spec.tokens.push_back(Spelling(piece));
      }
    }
    spec.token_types.assign(spec.tokens.size(), 1);
    for (const auto& [name, type] : {std::pair("<|end|>", 3), std::pair("<tool>", 4)}) {
      spec.tokens.emplace_back(name);
      spec.token_types.push_back(type);
    }
    auto made = Tokenizer::Create(spec);
    CHECK(made.ok(), "{}", made.error().Message());
    tokenizer_ = std::move(made).value();
    for (TokenId id = 0; id < tokenizer_->vocab_size(); ++id) {
      known_[std::string(tokenizer_->PieceBytes(id))] = id;
    }
    terms_ = std::make_unique<const TermTable>(*tokenizer_);
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const TermTable& terms() const { return *terms_; }
  TokenId Id(const std::string& piece) const {
    const auto found = known_.find(piece);
    CHECK(found != known_.end(), "the vocabulary lacks \"{}\"", piece);
    return found->second;
  }
  // The words of `text`, each with the space that leads it.
  std::vector<TokenId> Say(std::string_view text) const {
    std::vector<TokenId> tokens;
    while (!text.empty()) {
      const size_t end = std::min(text.find(' ', 1), text.size());
      tokens.push_back(Id(std::string(text.substr(0, end))));
      text.remove_prefix(end);
    }
    return tokens;
  }

 private:
  // Bytes as a vocabulary spells them: the printable ones as they are, the others from U+0100 on.
  static std::string Spelling(const std::string& bytes) {
    std::string spelt;
    for (const char c : bytes) {
      const auto byte = static_cast<uint8_t>(c);
      uint32_t next = 256;
      for (uint32_t i = 0; i < byte; ++i) next += Printable(i) ? 0 : 1;
      AppendUtf8(Printable(byte) ? byte : next, &spelt);
    }
    return spelt;
  }
  static bool Printable(uint32_t byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
  }

  std::map<std::string, TokenId> known_;
  std::unique_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<const TermTable> terms_;
};

}  // namespace mooring

#endif  // MOORING_TALK_TEST_WORDS_H_
