#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <random>

#include "text/test_vocab.h"

namespace mooring {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(TokenizerGolden, IdsAndBytesOfEveryText) {
  const nlohmann::json golden = ReadGolden("tokens.json");
  int count = 0;
  for (const auto& [key, trust] : {std::pair{"with_special_tokens", Trust::kTrusted},
                                   std::pair{"special_tokens_as_text", Trust::kUntrusted}}) {
    for (const auto& text : golden[key]) {
      const std::string bytes = text["text"];
      const auto ids = SmolTokenizer().Encode(bytes, trust);
      EXPECT_EQ(ids, text["ids"].get<std::vector<TokenId>>()) << key << ": " << bytes;
      EXPECT_EQ(SmolTokenizer().Decode(ids, true), bytes);
      ++count;
    }
  }
  EXPECT_EQ(count, 47);
}

TEST(Tokenizer, KnowsItsSpecialTokens) {
  const Tokenizer& tokenizer = SmolTokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 49152);
  EXPECT_EQ(tokenizer.bos(), 1);
  EXPECT_EQ(tokenizer.eos(), 2);
  EXPECT_EQ(tokenizer.eot(), std::nullopt);
  EXPECT_EQ(tokenizer.FindSpecial("<|im_end|>"), 2);
  EXPECT_EQ(tokenizer.FindSpecial("<|im_end"), std::nullopt);
  EXPECT_EQ(tokenizer.FindSpecial("<|im_end|> "), std::nullopt);
  EXPECT_EQ(tokenizer.FindSpecial("the"), std::nullopt);
  EXPECT_EQ(tokenizer.FindSpecial(""), std::nullopt);
  EXPECT_TRUE(tokenizer.IsSpecial(16));
  EXPECT_FALSE(tokenizer.IsSpecial(17));
  EXPECT_FALSE(tokenizer.IsSpecial(-1));
  EXPECT_FALSE(tokenizer.IsSpecial(49152));
  EXPECT_EQ(tokenizer.PieceBytes(253), " a");
  EXPECT_EQ(tokenizer.Decode(std::vector<TokenId>{1, 253, 2, -1, 99999}, false), " a");
  EXPECT_EQ(tokenizer.Decode(std::vector<TokenId>{1, 253, 2}, true), "<|im_start|> a<|im_end|>");
}

// This vocabulary was trained on text without some bytes; they are left out and nothing else is.
TEST(Tokenizer, LeavesOutOnlyBytesTheVocabularyLacks) {
  EXPECT_FALSE(SmolTokenizer().encodes_all_bytes());
  EXPECT_TRUE(MakeTokenizer(TinyVocab())->encodes_all_bytes());
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all.push_back(static_cast<char>(byte));
  const std::string back =
      SmolTokenizer().Decode(SmolTokenizer().Encode(all, Trust::kUntrusted), true);
  EXPECT_EQ(back.size(), 256U - 21U);
  EXPECT_EQ(back.find('\x04'), std::string::npos);
}

TEST(Tokenizer, LongestSpecialWinsAndOnlyInTrustedText) {
  const auto tokenizer = MakeTokenizer(TinyVocab());
  EXPECT_THAT(tokenizer->Encode("<ab><a><u>", Trust::kTrusted), ElementsAre(260, 259, 261));
  EXPECT_THAT(tokenizer->Encode("<ab>", Trust::kUntrusted), ElementsAre('<', 258, '>'));
  EXPECT_THAT(tokenizer->Encode("<u>", Trust::kUntrusted), ElementsAre('<', 'u', '>'));
  EXPECT_FALSE(tokenizer->IsSpecial(261));
  EXPECT_THAT(tokenizer->Encode("<<a>", Trust::kTrusted), ElementsAre('<', 259));
}

TEST(Tokenizer, MergesByRankThenFromTheLeft) {
  const auto tokenizer = MakeTokenizer(TinyVocab());
  EXPECT_THAT(tokenizer->Encode("aaab", Trust::kUntrusted), ElementsAre(256, 258));
  EXPECT_THAT(tokenizer->Encode("aaa", Trust::kUntrusted), ElementsAre(256, 'a'));
  EXPECT_THAT(tokenizer->Encode("aaaaaa", Trust::kUntrusted), ElementsAre(257, 256));
  EXPECT_THAT(tokenizer->Encode("", Trust::kTrusted), IsEmpty());
}

std::string RandomText(std::mt19937_64* random) {
  static constexpr std::string_view kScraps[] = {"<|im_end|>",
                                                 "<|im_",
                                                 "end|>",
                                                 "'s",
                                                 " 'll",
                                                 "  ",
                                                 "\n",
                                                 "\t",
                                                 "caf\xC3\xA9",
                                                 "\xE6\x97\xA5",
                                                 "\xF0\x9F\x98\x80",
                                                 "\xF0\x9F",
                                                 "\xC0\x80",
                                                 "\xED\xA0\x80",
                                                 "42",
                                                 "\xD9\xA3",
                                                 "word",
                                                 " The"};
  std::string text;
  for (size_t part = (*random)() % 12; part > 0; --part) {
    if ((*random)() % 3 == 0) {
      for (size_t n = (*random)() % 9; n > 0; --n) text += static_cast<char>((*random)());
    } else {
      text += kScraps[(*random)() % std::size(kScraps)];
    }
  }
  return text;
}

TEST(TokenizerProperty, AnyBytesComeBackAndNoMarkComesOfUntrustedText) {
  const auto tiny = MakeTokenizer(TinyVocab());
  VocabSpec spec = TinyVocab();
  spec.pre = "smollm";
  const auto digits = MakeTokenizer(spec);
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const std::string text = RandomText(&random);
    for (const Tokenizer* tokenizer : {tiny.get(), digits.get()}) {
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, Trust::kUntrusted), false), text);
      ASSERT_EQ(tokenizer->Decode(tokenizer->Encode(text, Trust::kTrusted), true), text);
    }
    for (const TokenId id : SmolTokenizer().Encode(text, Trust::kUntrusted)) {
      ASSERT_FALSE(SmolTokenizer().IsSpecial(id));
    }
  }
}

// 4 MiB of one letter, which a quadratic algorithm would take hours for; of other kinds of
// character 1 MiB, for which it would still take many minutes. Sanitizers read a quarter of it.
TEST(Tokenizer, HugeUniformTextTakesSeconds) {
#ifdef MOORING_DCHECKS
  constexpr unsigned kShift = 18;
#else
  constexpr unsigned kShift = 20;
#endif
  for (const char c : {'a', ' ', '1', '\xFE', '\n'}) {
    const std::string text(size_t{c == 'a' ? 4U : 1U} << kShift, c);
    const std::clock_t begin = std::clock();  // work, not waiting for a busy machine
    const auto ids = SmolTokenizer().Encode(text, Trust::kTrusted);
    const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    EXPECT_LT(seconds, 60) << c;
    RecordProperty(std::string("seconds_") + std::to_string(static_cast<uint8_t>(c)),
                   std::to_string(seconds));
    EXPECT_EQ(SmolTokenizer().Decode(ids, true), c == '\xFE' ? "" : text);
  }
}

TEST(Tokenizer, FingerprintTellsVocabulariesApart) {
  VocabSpec spec = TinyVocab();
  const uint64_t first = MakeTokenizer(spec)->fingerprint();
  EXPECT_EQ(MakeTokenizer(TinyVocab())->fingerprint(), first);
  std::swap(spec.merges[0], spec.merges[2]);
  EXPECT_NE(MakeTokenizer(spec)->fingerprint(), first);
  spec = TinyVocab();
  spec.pre = "smollm";
  EXPECT_NE(MakeTokenizer(spec)->fingerprint(), first);
}

struct BadCase {
  const char* field;
  void (*damage)(VocabSpec*);
};

class BadVocab : public testing::TestWithParam<BadCase> {};

TEST_P(BadVocab, IsRefusedByField) {
  VocabSpec spec = TinyVocab();
  GetParam().damage(&spec);
  const auto made = Tokenizer::Create(spec);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::kModelInvalid);
  EXPECT_THAT(made.error().where, HasSubstr(GetParam().field));
  EXPECT_FALSE(made.error().expected.empty());
  EXPECT_FALSE(made.error().found.empty());
  EXPECT_FALSE(made.error().remedy.empty());
}

INSTANTIATE_TEST_SUITE_P(
    Each, BadVocab,
    testing::Values(
        BadCase{"ggml.model", [](VocabSpec* s) { s->model = std::string("llama"); }},
        BadCase{"ggml.pre", [](VocabSpec* s) { s->pre.clear(); }},
        BadCase{"ggml.tokens", [](VocabSpec* s) { s->tokens.clear(); }},
        BadCase{"tokens[256]", [](VocabSpec* s) { s->tokens[256] = s->tokens[7]; }},
        BadCase{"tokens[9]", [](VocabSpec* s) { s->tokens[9].clear(); }},
        BadCase{"tokens[9]", [](VocabSpec* s) { s->tokens[9] = std::string("\xFF"); }},
        BadCase{"tokens[9]", [](VocabSpec* s) { s->tokens[9] = std::string("a b"); }},
        BadCase{"tokens[9]", [](VocabSpec* s) { s->tokens[9] = std::string("\xE6\x97\xA5"); }},
        BadCase{"tokens[260]", [](VocabSpec* s) { s->tokens[260] = std::string("\xC3"); }},
        BadCase{"token_type", [](VocabSpec* s) { s->token_types.pop_back(); }},
        BadCase{"token_type[3]", [](VocabSpec* s) { s->token_types[3] = 6; }},
        BadCase{"token_type[3]", [](VocabSpec* s) { s->token_types[3] = 0; }},
        BadCase{"token_type[3]", [](VocabSpec* s) { s->token_types[3] = INT32_MIN; }},
        BadCase{"merges[1]", [](VocabSpec* s) { s->merges[1] = std::string("aa"); }},
        BadCase{"merges[1]", [](VocabSpec* s) { s->merges[1] = std::string("a a a"); }},
        BadCase{"merges[1]", [](VocabSpec* s) { s->merges[1] = std::string(" aa"); }},
        BadCase{"merges[1]", [](VocabSpec* s) { s->merges[1] = std::string("a a"); }},
        BadCase{"merges[1]", [](VocabSpec* s) { s->merges[1] = std::string("a c"); }},
        BadCase{"merges[1]", [](VocabSpec* s) { s->merges[1] = std::string("aaa a"); }},
        BadCase{"bos_token_id", [](VocabSpec* s) { s->bos = 262; }},
        BadCase{"eos_token_id", [](VocabSpec* s) { s->eos = -1; }},
        BadCase{"eot_token_id", [](VocabSpec* s) { s->eot = INT32_MAX; }},
        BadCase{"unknown_token_id", [](VocabSpec* s) { s->unk = 262; }},
        BadCase{"padding_token_id", [](VocabSpec* s) { s->pad = 262; }}));

// A file could try to let user text merge into a control token.
TEST(Tokenizer, MergeIntoAControlTokenIsRefused) {
  VocabSpec spec = TinyVocab();
  spec.tokens[256] = "<a";
  spec.merges = {"< a", "<a >"};
  const auto made = Tokenizer::Create(spec);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().where, HasSubstr("merges[1]"));
}

TEST(Tokenizer, TokenOfAMebibyteIsFine) {
  VocabSpec spec = TinyVocab();
  spec.tokens.emplace_back(size_t{1} << 20U, 'z');
  spec.token_types.push_back(1);
  EXPECT_EQ(MakeTokenizer(spec)->PieceBytes(262).size(), size_t{1} << 20U);
}

}  // namespace
}  // namespace mooring
