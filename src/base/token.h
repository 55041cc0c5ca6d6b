// The id of one entry of a model's vocabulary. Signed, because files and other programs use -1 for
// "none"; an id that has passed the tokenizer's checks lies in [0, vocabulary size).
#ifndef MOORING_BASE_TOKEN_H_
#define MOORING_BASE_TOKEN_H_

#include <cstdint>

namespace mooring {

using TokenId = int32_t;

inline constexpr TokenId kNoToken = -1;

}  // namespace mooring

#endif  // MOORING_BASE_TOKEN_H_
