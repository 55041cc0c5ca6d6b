#include "engine/token_log.h"

#include <algorithm>

#include "base/check.h"

namespace mooring {

size_t TokenLog::CopyLast(std::span<TokenId> out) const {
  const size_t count = std::min(out.size(), entries_.size());
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
  DCHECK(token >= 0);
  entries_.push_back(static_cast<uint32_t>(token) | (generated ? kGeneratedBit : 0));
}

void TokenLog::Rewind(int64_t count) {
  CHECK(count >= 0 && count <= end().value);
  entries_.resize(entries_.size() - static_cast<size_t>(count));
}

}  // namespace mooring
