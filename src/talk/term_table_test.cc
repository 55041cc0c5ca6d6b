#include "talk/term_table.h"

#include <gtest/gtest.h>

#include "talk/test_words.h"
#include "text/test_vocab.h"

namespace mooring {
namespace {

TEST(TermTableTest, FoldsCaseAndTheLeadingSpace) {
  const TestWords words({"gate", "\xC3\xA4rger",
                         "stra\xC3\x9F"
                         "e",
                         "strasse"});
  const TermTable& terms = words.terms();
  const TermId gate = terms.term(words.Id("gate"));
  EXPECT_NE(gate, kNoTerm);
  for (const char* piece : {"Gate", " gate", " Gate"}) {
    EXPECT_EQ(terms.term(words.Id(piece)), gate) << piece;
  }
  EXPECT_NE(terms.term(words.Id("g")), gate);
  EXPECT_EQ(terms.term(words.Id("stra\xC3\x9F"
                                "e")),
            terms.term(words.Id(" Strasse")));
  // A byte that is no UTF-8 by itself stands for itself.
  EXPECT_NE(terms.term(words.Id("\xC3")), terms.term(words.Id("\xA4")));
  EXPECT_NE(terms.term(words.Id("\xC3")), kNoTerm);
}

TEST(TermTableTest, FoldsBeyondAscii) {
  const TestWords words({"\xC3\xA4rger", "\xC3\x84rger"});
  EXPECT_EQ(words.terms().term(words.Id("\xC3\xA4rger")),
            words.terms().term(words.Id(" \xC3\x84rger")));
}

TEST(TermTableTest, LeavesOutMarksAndWhiteSpace) {
  const TestWords words({"gate"});
  for (const char* piece : {" ", "\n", "\t", "<|end|>", "<tool>"}) {
    EXPECT_EQ(words.terms().term(words.Id(piece)), kNoTerm) << piece;
  }
  EXPECT_NE(words.terms().term(words.Id("<")), kNoTerm);
  EXPECT_EQ(words.terms().term(-1), kNoTerm);
  EXPECT_EQ(words.terms().term(words.tokenizer().vocab_size()), kNoTerm);
}

TEST(TermTableTest, NumbersARealVocabulary) {
  const Tokenizer& tokenizer = SmolTokenizer();
  const TermTable terms(tokenizer);
  EXPECT_GT(terms.term_count(), 30000U);
  EXPECT_LT(terms.term_count(), static_cast<uint32_t>(tokenizer.vocab_size()));
  TermId seen = 0;
  for (TokenId token = 0; token < tokenizer.vocab_size(); ++token) {
    if (terms.term(token) == kNoTerm) continue;
    ASSERT_LE(terms.term(token), seen);
    seen = std::max(seen, terms.term(token) + 1);
  }
  EXPECT_EQ(seen, terms.term_count());
  const auto term_of = [&](std::string_view text) {
    const std::vector<TokenId> ids = tokenizer.Encode(text, Trust::kUntrusted);
    return ids.size() == 1 ? terms.term(ids[0]) : kNoTerm;
  };
  EXPECT_NE(term_of("House"), kNoTerm);
  EXPECT_EQ(term_of("House"), term_of(" house"));
  EXPECT_EQ(terms.fingerprint(), TermTable(tokenizer).fingerprint());
  EXPECT_NE(terms.fingerprint(), TestWords({"gate"}).terms().fingerprint());
}

}  // namespace
}  // namespace mooring
