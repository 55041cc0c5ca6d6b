// Values of template expressions: JSON, shared and never changed in place, with Python's manners.
//
// "Undefined" is JSON's discarded value. Strings are UTF-8, counted and cut by characters. Every
// function here accepts any value and throws nothing.
//
// Thread rule: values are const and may be shared between threads.
#ifndef MOORING_TEXT_JINJA_VALUE_H_
#define MOORING_TEXT_JINJA_VALUE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mooring::jinja {

using Json = nlohmann::ordered_json;
using Value = std::shared_ptr<const Json>;

inline Value Make(Json json) { return std::make_shared<const Json>(std::move(json)); }
Value Undefined();

// A part of `whole`, kept alive by it.
inline Value Part(const Value& whole, const Json& part) { return Value(whole, &part); }

// The string that `value` holds. REQUIRES: value.is_string().
const std::string& Text(const Json& value);
inline const std::string& Text(const Value& value) { return Text(*value); }

// The number that `value` holds, or nothing.
std::optional<int64_t> ToInt(const Json& value);  // integers and booleans
std::optional<double> ToDouble(const Json& value);

bool IsTrue(const Json& value);
bool IsEqual(const Json& a, const Json& b);
// Less than zero, zero or more; nothing for values without an order.
std::optional<int> Compare(const Json& a, const Json& b);
bool Contains(const Json& container, const Json& item);
size_t Length(const Json& value);  // 0 for what has none

std::string ToText(const Json& value);         // as `str` of Python prints
std::string_view KindName(const Json& value);  // for messages

// JSON as the `tojson` filter of the reference writes it: ", " and ": ", non-ASCII kept.
std::string ToJsonText(const Json& value, int indent);

// The nodes of a value, a string being one for each 256 bytes; stops counting at `limit`.
int64_t Weight(const Json& value, int64_t limit);
int Depth(const Json& value);

std::vector<std::string_view> Characters(std::string_view text);
std::string_view Strip(std::string_view text, std::string_view characters, bool left, bool right);
std::string MapAscii(std::string_view text, bool upper);

inline constexpr std::string_view kWhitespace = " \t\n\r\f\v";

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_VALUE_H_
