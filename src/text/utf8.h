// UTF-8, tolerant of bytes that are not: the one place that knows how characters are spelt.
//
// A sequence is valid as Unicode defines it: shortest form, no surrogates, at most U+10FFFF.
//
// Thread rule: pure functions.
#ifndef MOORING_TEXT_UTF8_H_
#define MOORING_TEXT_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace mooring {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Char {
  enum class State : uint8_t {
    kWhole,       // a character; `code_point` holds it
    kIncomplete,  // the text ends inside what may still become a character
    kInvalid,     // `size` bytes that no continuation can repair (Unicode's "maximal subpart")
  };
  State state = State::kInvalid;
  uint8_t size = 1;         // bytes, 1 to 4
  uint32_t code_point = 0;  // valid for kWhole
};

// The character that `text` starts with. REQUIRES: `text` is not empty.
Utf8Char ReadUtf8(std::string_view text);

// REQUIRES: `code_point` is a scalar value.
void AppendUtf8(uint32_t code_point, std::string* out);

bool IsValidUtf8(std::string_view text);

// Characters in `text`; each byte that is part of none counts as one.
size_t CountUtf8(std::string_view text);

}  // namespace mooring

#endif  // MOORING_TEXT_UTF8_H_
