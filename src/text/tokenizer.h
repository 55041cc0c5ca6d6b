// Bytes <-> token ids: byte-level byte-pair encoding with ranked merges.
//
// Any bytes can be encoded, valid UTF-8 or not, and Decode gives them back; a byte for which the
// vocabulary has no token at all (some models never saw every byte) is left out, as the reference
// implementation does, and encodes_all_bytes() says whether that can happen.
//
// Special tokens (control marks such as the end of a turn, and tokens a model's makers added) are
// recognised only in trusted text: what a person types is never a control token, however it is
// spelt. No id of such a token comes out of untrusted text, whatever merges a model file has.
//
// Thread rule: const after Create; every method may be called from any thread.
#ifndef MOORING_TEXT_TOKENIZER_H_
#define MOORING_TEXT_TOKENIZER_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/token.h"
#include "text/merge_table.h"
#include "text/pretokenizer.h"
#include "text/vocab.h"

namespace mooring {

// Whether a text may speak for the program (a template's marks) or is only what someone wrote.
enum class Trust : uint8_t { kUntrusted, kTrusted };

class Tokenizer {
 public:
  // Fails with kModelInvalid, naming the field, for a vocabulary that contradicts itself.
  static Result<std::unique_ptr<const Tokenizer>> Create(const VocabSpec& spec);

  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Appends the ids of `bytes` to `out`. Adds no BOS or EOS: add_bos() and add_eos() tell whether
  // raw text wants them; in a chat the template writes them.
  void Encode(std::string_view bytes, Trust trust, std::vector<TokenId>* out) const;
  std::vector<TokenId> Encode(std::string_view bytes, Trust trust) const;

  // The bytes of one token; of a special token its name. REQUIRES: an id of this vocabulary.
  std::string_view PieceBytes(TokenId id) const;

  // The bytes of all tokens end to end, not repaired in any way. Special tokens are left out unless
  // `show_special`. Ids outside the vocabulary give nothing.
  std::string Decode(std::span<const TokenId> ids, bool show_special) const;

  // True for tokens that are marks and never text: control, unknown and unused ones. Tokens of type
  // user-defined are text when shown, yet, like the marks, only trusted text can name them.
  bool IsSpecial(TokenId id) const;

  // The token that trusted text names by exactly `name`.
  std::optional<TokenId> FindSpecial(std::string_view name) const;

  int32_t vocab_size() const { return static_cast<int32_t>(types_.size()); }
  std::optional<TokenId> bos() const { return bos_; }
  std::optional<TokenId> eos() const { return eos_; }
  std::optional<TokenId> eot() const { return eot_; }
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  bool encodes_all_bytes() const;

  // The same for vocabularies that give the same ids: over tokens, types, merges and pre-tokenizer.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Special {
    std::string name;
    TokenId id;
  };

  Tokenizer(const VocabSpec& spec, PreTokenizer pre);
  Status AddTokens(const VocabSpec& spec);
  Status AddMerges(const VocabSpec& spec);
  const Special* SpecialAt(std::string_view text) const;
  void EncodeText(std::string_view text, MergeTable::Scratch* scratch,
                  std::vector<TokenId>* out) const;

  PreTokenizer pre_;
  std::string pieces_;                   // the bytes of all tokens, end to end
  std::vector<size_t> piece_begin_;      // [vocabulary + 1]
  std::vector<TokenType> types_;         // [vocabulary]
  std::array<TokenId, 256> byte_ids_{};  // -1 where the vocabulary lacks the byte
  MergeTable merges_;
  std::vector<Special> specials_;              // by first byte, then the longest first
  std::array<uint32_t, 257> special_begin_{};  // where each first byte starts in specials_
  std::optional<TokenId> bos_, eos_, eot_;
  bool add_bos_, add_eos_;
  uint64_t fingerprint_ = 0;
};

}  // namespace mooring

#endif  // MOORING_TEXT_TOKENIZER_H_
