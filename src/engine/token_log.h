// Everything ever said in a conversation, as tokens: the truth that every page is a cache of. Each
// token keeps one bit: was it read, or generated here.
//
// Costs four bytes per token, in pieces that never move: a log of millions grows without a pause.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_ENGINE_TOKEN_LOG_H_
#define MOORING_ENGINE_TOKEN_LOG_H_

#include <cstdint>
#include <deque>
#include <span>

#include "base/token.h"
#include "tensor/position.h"

namespace mooring {

class TokenLog {
 public:
  LogIndex end() const { return {static_cast<int64_t>(entries_.size())}; }
  bool empty() const { return entries_.empty(); }
  TokenId token(LogIndex index) const {
    return static_cast<TokenId>(entries_[static_cast<size_t>(index.value)] & ~kGeneratedBit);
  }
  bool generated(LogIndex index) const {
    return (entries_[static_cast<size_t>(index.value)] & kGeneratedBit) != 0;
  }
  // Copies the last tokens, newest last, into `out`; returns how many there were for it.
  size_t CopyLast(std::span<TokenId> out) const;
  // The same, with kNoToken in the place of each token that was not generated.
  size_t CopyLastGenerated(std::span<TokenId> out) const;

  // REQUIRES: token >= 0.
  void Append(TokenId token, bool generated);
  // Takes back the last `count` tokens.
  void Rewind(int64_t count);

 private:
  static constexpr uint32_t kGeneratedBit = 1U << 31;  // ids are not negative, so it is free

  std::deque<uint32_t> entries_;
};

}  // namespace mooring

#endif  // MOORING_ENGINE_TOKEN_LOG_H_
