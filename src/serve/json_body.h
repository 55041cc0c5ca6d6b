// JSON that strangers sent: read with limits, and written so that what comes out is always UTF-8.
//
// Thread rule: pure functions.
#ifndef MOORING_SERVE_JSON_BODY_H_
#define MOORING_SERVE_JSON_BODY_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "serve/api_error.h"

namespace mooring {

using Json = nlohmann::ordered_json;

inline constexpr size_t kMaxJsonDepth = 64;
inline constexpr size_t kMaxJsonMembers = 1024;  // of one object

// An object. Refused with 400: what is no JSON (invalid_json), deeper than kMaxJsonDepth
// (json_too_deep), a key twice in one object, numbers beyond a double, text that is not UTF-8.
std::variant<Json, ApiError> ParseBody(std::string_view text);

// Bytes that are not UTF-8 become U+FFFD.
std::string Dump(const Json& json);

}  // namespace mooring

#endif  // MOORING_SERVE_JSON_BODY_H_
