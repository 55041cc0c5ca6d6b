#include "engine/token_log.h"

#include <algorithm>

#include "base/check.h"

namespace mooring {

size_t TokenLog::CopyLast(std::span<TokenId> out) const {
  const size_t count = std::min(out.size(), static_cast<size_t>(size_));
  const auto first = end() - static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i) out[i] = token(first + static_cast<int64_t>(i));
  return count;
}

size_t TokenLog::CopyLastGenerated(std::span<TokenId> out) const {
  const size_t count = CopyLast(out);
  const auto first = end() - static_cast<int64_t>(count);
  for (size_t i = 0; i < count; ++i) {
    if (!generated(first + static_cast<int64_t>(i))) out[i] = kNoToken;
  }
  return count;
}

void TokenLog::Append(TokenId token, bool generated) {
  DCHECK(token >= 0 && token <= kMaxToken);
  if (size_ % kPieceTokens == 0) pieces_.emplace_back().reserve(kPieceTokens * kEntryBytes);
  const uint32_t entry = static_cast<uint32_t>(token) << 1 | (generated ? 1U : 0U);
  for (int shift = 0; shift < 24; shift += 8) {
    pieces_.back().push_back(static_cast<uint8_t>(entry >> shift));
  }
  ++size_;
}

bool TokenLog::Begins(const TokenLog& other) const {
  if (size_ > other.size_) return false;
  for (LogIndex at = {0}; at < end(); at = at + 1) {
    if (Entry(at) != other.Entry(at)) return false;
  }
  return true;
}

void TokenLog::Rewind(int64_t count) {
  CHECK(count >= 0 && count <= size_);
  size_ -= count;
  pieces_.resize(static_cast<size_t>((size_ + kPieceTokens - 1) / kPieceTokens));
  if (const int64_t last = size_ % kPieceTokens; last > 0) {
    pieces_.back().resize(static_cast<size_t>(last * kEntryBytes));
  }
}

}  // namespace mooring
