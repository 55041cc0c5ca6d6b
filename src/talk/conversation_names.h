// What conversations and messages are called. An id is made here and never chosen: a prefix
// ("conv_", "msg_", "resp_") and 26 characters of 128 random bits. A name is chosen by whoever
// talks: 1 to 128 characters of A-Z a-z 0-9 . _ : @ -, unique within its owner. What begins with
// "conv_" is never a name.
//
// Thread rule: pure functions, apart from the random bits.
#ifndef MOORING_TALK_CONVERSATION_NAMES_H_
#define MOORING_TALK_CONVERSATION_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mooring {

inline constexpr std::string_view kConversationPrefix = "conv_";
inline constexpr std::string_view kMessagePrefix = "msg_";
inline constexpr size_t kMaxNameBytes = 128;

enum class ReferenceKind : uint8_t { kId, kName };

// How a client's word for a conversation is to be read. An id that nobody made, even a malformed
// one, is an id: it is simply not found. kUsage, with the rule, for what can be neither.
Result<ReferenceKind> KindOfReference(std::string_view reference);

// kUsage unless `name` may be a conversation's name.
Status CheckName(std::string_view name);

// A new id: `prefix` and 26 characters of a-z and 2-7. kFailed when the system gives no random
// bits.
Result<std::string> MakeId(std::string_view prefix);

}  // namespace mooring

#endif  // MOORING_TALK_CONVERSATION_NAMES_H_
