// The tokens of a message as bytes: per token a varint of (id * 2 + generated), two to three bytes.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_TOKEN_BYTES_H_
#define MOORING_TALK_TOKEN_BYTES_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "talk/stored.h"

namespace mooring {

// kUsage unless each id is in [0, TokenLog::kMaxToken] and has its bit.
Status CheckTokens(const LogTokens& tokens);

// REQUIRES: checked tokens.
std::string TokenBytes(const LogTokens& tokens);

// kModelInvalid for what TokenBytes cannot have made.
Result<LogTokens> ReadTokenBytes(std::string_view bytes);

}  // namespace mooring

#endif  // MOORING_TALK_TOKEN_BYTES_H_
