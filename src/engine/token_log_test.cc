#include "engine/token_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"

namespace mooring {
namespace {

TokenId TokenAt(int64_t i) {
  const uint64_t bits = RandomBits(5, 0, static_cast<uint64_t>(i));
  if (bits % 100 == 0) return TokenLog::kMaxToken;
  return static_cast<TokenId>(bits >> 41);
}
bool GeneratedAt(int64_t i) { return RandomBits(5, 1, static_cast<uint64_t>(i)) % 3 == 0; }

void ExpectWhole(const TokenLog& log, int64_t size) {
  ASSERT_EQ(log.end().value, size);
  for (int64_t i = 0; i < size; ++i) {
    ASSERT_EQ(log.token({i}), TokenAt(i)) << i;
    ASSERT_EQ(log.generated({i}), GeneratedAt(i)) << i;
  }
}

// Across many pieces, back to their borders and beyond, and on from there.
TEST(TokenLog, KeepsEveryTokenThroughRewinds) {
  TokenLog log;
  EXPECT_TRUE(log.empty());
  for (const int64_t size : {1, 8192, 8191, 8193, 30000, 16384, 16385, 5, 0, 20000}) {
    if (size < log.end().value) log.Rewind(log.end().value - size);
    while (log.end().value < size)
      log.Append(TokenAt(log.end().value), GeneratedAt(log.end().value));
    ExpectWhole(log, size);
  }
  TokenLog copy = log;
  copy.Append(TokenAt(20000), GeneratedAt(20000));
  ExpectWhole(copy, 20001);
  ExpectWhole(log, 20000);
}

TEST(TokenLog, CopiesTheNewest) {
  TokenLog log;
  std::vector<TokenId> out(4, 99);
  EXPECT_EQ(log.CopyLast(out), 0U);
  for (TokenId token = 0; token < 3; ++token) log.Append(token, token == 1);
  EXPECT_EQ(log.CopyLast(out), 3U);
  EXPECT_EQ(out, (std::vector<TokenId>{0, 1, 2, 99}));
  EXPECT_EQ(log.CopyLastGenerated(std::span(out).first(2)), 2U);
  EXPECT_EQ(out, (std::vector<TokenId>{1, kNoToken, 2, 99}));
}

}  // namespace
}  // namespace mooring
