// The vocabulary of a model as plain data, as its file spells it. The room that reads model files
// fills it; Tokenizer::Create checks it, so nothing here can be trusted before that.
//
// Thread rule: a plain value.
#ifndef MOORING_TEXT_VOCAB_H_
#define MOORING_TEXT_VOCAB_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/token.h"

namespace mooring {

// The numbers are those of `tokenizer.ggml.token_type`.
enum class TokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct VocabSpec {
  std::string model;                 // `tokenizer.ggml.model`; "gpt2" is byte-level BPE
  std::string pre;                   // `tokenizer.ggml.pre`, the name of the pre-tokenizer
  std::vector<std::string> tokens;   // [vocabulary]; normal ones in GPT-2's byte-to-unicode form
  std::vector<int32_t> token_types;  // [vocabulary] TokenType numbers, or empty: all normal
  std::vector<std::string> merges;   // "left right", the best rank first
  std::optional<TokenId> bos, eos, eot, unk, pad;
  bool add_bos = false;
  bool add_eos = false;
  std::string chat_template;                           // may be empty
  std::map<std::string, std::string> named_templates;  // `tokenizer.chat_template.NAME`
};

}  // namespace mooring

#endif  // MOORING_TEXT_VOCAB_H_
