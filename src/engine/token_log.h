// Everything ever said in a conversation, as tokens: the truth that every page is a cache of. Each
// token keeps one bit: was it read, or generated here.
//
// Costs three bytes per token, in pieces that never move: a log of millions grows without a pause,
// and large enough that they do not lie between what comes and goes with every turn.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_ENGINE_TOKEN_LOG_H_
#define MOORING_ENGINE_TOKEN_LOG_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/token.h"
#include "tensor/position.h"

namespace mooring {

class TokenLog {
 public:
  // Ids of every vocabulary known lie far below.
  static constexpr TokenId kMaxToken = (1 << 23) - 1;

  LogIndex end() const { return {size_}; }
  bool empty() const { return size_ == 0; }
  TokenId token(LogIndex index) const { return static_cast<TokenId>(Entry(index) >> 1); }
  bool generated(LogIndex index) const { return (Entry(index) & 1) != 0; }
  // Copies the last tokens, newest last, into `out`; returns how many there were for it.
  size_t CopyLast(std::span<TokenId> out) const;
  // The same, with kNoToken in the place of each token that was not generated.
  size_t CopyLastGenerated(std::span<TokenId> out) const;

  // REQUIRES: 0 <= token <= kMaxToken.
  void Append(TokenId token, bool generated);
  friend bool operator==(const TokenLog&, const TokenLog&) = default;

  // Whether `other` goes on from this one, or is the same.
  bool Begins(const TokenLog& other) const;

  // Takes back the last `count` tokens.
  void Rewind(int64_t count);

 private:
  static constexpr int64_t kPieceTokens = 8192;
  static constexpr int64_t kEntryBytes = 3;

  // The token and the bit, the bit lowest.
  uint32_t Entry(LogIndex index) const {
    const auto piece = static_cast<size_t>(index.value / kPieceTokens);
    const uint8_t* bytes = pieces_[piece].data() + index.value % kPieceTokens * kEntryBytes;
    return bytes[0] | uint32_t{bytes[1]} << 8 | uint32_t{bytes[2]} << 16;
  }

  std::vector<std::vector<uint8_t>> pieces_;  // all full but the last
  int64_t size_ = 0;
};

}  // namespace mooring

#endif  // MOORING_ENGINE_TOKEN_LOG_H_
