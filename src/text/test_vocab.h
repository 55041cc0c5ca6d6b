// The real vocabulary that this room's tests share, from a file of the tree.
//
// Thread rule: call from one thread first; what it returns is const.
#ifndef MOORING_TEXT_TEST_VOCAB_H_
#define MOORING_TEXT_TEST_VOCAB_H_

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

#ifndef MOORING_SOURCE_DIR
#define MOORING_SOURCE_DIR "."
#endif

namespace mooring {

inline nlohmann::json ReadGolden(const std::string& name) {
  std::ifstream file(std::string(MOORING_SOURCE_DIR) + "/tests/golden/" + name);
  CHECK(file.good(), "tests/golden/{} is missing", name);
  return nlohmann::json::parse(file);
}

inline const VocabSpec& SmolVocab() {
  static const VocabSpec* const kSpec = [] {
    const nlohmann::json file = ReadGolden("smollm2_vocab.json");
    auto* spec = new VocabSpec;
    spec->model = file["model"];
    spec->pre = file["pre"];
    spec->tokens = file["first_tokens"].get<std::vector<std::string>>();
    spec->merges = file["merges"].get<std::vector<std::string>>();
    for (std::string merge : spec->merges) {
      spec->tokens.push_back(merge.erase(merge.find(' '), 1));
    }
    spec->token_types.assign(spec->tokens.size(), 1);
    for (size_t id = 0; id < file["control_count"]; ++id) spec->token_types[id] = 3;
    spec->bos = file["bos"];
    spec->eos = file["eos"];
    spec->unk = file["unk"];
    spec->pad = file["pad"];
    spec->add_bos = file["add_bos"];
    spec->chat_template = file["chat_template"];
    return spec;
  }();
  return *kSpec;
}

inline const Tokenizer& SmolTokenizer() {
  static const Tokenizer* const kTokenizer = [] {
    auto made = Tokenizer::Create(SmolVocab());
    CHECK(made.ok(), "{}", made.error().Message());
    return std::move(made).value().release();
  }();
  return *kTokenizer;
}

// A tokenizer that has every byte: 256 byte tokens, two control tokens ("<a>", "<ab>"), one
// user-defined ("<u>") and a few merges.
inline VocabSpec TinyVocab() {
  VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt2";
  int next = 256;
  const auto put = [&spec](int c) {
    std::string text;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else {
      text += static_cast<char>(0xC0 | (c >> 6));
      text += static_cast<char>(0x80 | (c & 0x3F));
    }
    spec.tokens.push_back(text);
  };
  for (int byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173);
    put(itself ? byte : next++);
  }
  for (const char* token : {"aa", "aaaa", "ab", "<a>", "<ab>", "<u>"})
    spec.tokens.emplace_back(token);
  spec.merges = {"a a", "aa aa", "a b"};
  spec.token_types.assign(259, 1);
  spec.token_types.insert(spec.token_types.end(), {3, 3, 4});
  spec.bos = 259;
  spec.eos = 260;
  return spec;
}

inline std::unique_ptr<const Tokenizer> MakeTokenizer(const VocabSpec& spec) {
  auto made = Tokenizer::Create(spec);
  CHECK(made.ok(), "{}", made.error().Message());
  return std::move(made).value();
}

}  // namespace mooring

#endif  // MOORING_TEXT_TEST_VOCAB_H_
