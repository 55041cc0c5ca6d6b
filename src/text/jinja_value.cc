#include "text/jinja_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "text/utf8.h"

namespace mooring::jinja {
namespace {

std::string QuoteForPython(const std::string& text) {
  const bool double_quotes =
      text.find('\'') != std::string::npos && text.find('"') == std::string::npos;
  const char quote = double_quotes ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else {
      if (c == '\\' || c == quote) out += '\\';
      out += c;
    }
  }
  return out + quote;
}

std::string FloatText(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  if (number == std::floor(number) && std::fabs(number) < 1e16) {
    return fmt::format("{:.1f}", number);
  }
  return fmt::format("{}", number);
}

std::string Repr(const Json& value) {
  return value.is_string() ? QuoteForPython(Text(value)) : ToText(value);
}

// The library's escaping of one string, never failing: bad bytes become U+FFFD.
std::string QuoteForJson(const Json& text) {
  return text.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void WriteJson(const Json& value, int indent, int level, std::string* out) {
  const bool is_array = value.is_array();
  if (!is_array && !value.is_object()) {
    if (value.is_discarded()) {
      *out += "null";
    } else if (value.is_number_float()) {
      *out += FloatText(*ToDouble(value));
    } else {
      *out += QuoteForJson(value);
    }
    return;
  }
  *out += is_array ? '[' : '{';
  const auto new_line = [&](int at) {
    if (indent > 0) out->append(1, '\n').append(static_cast<size_t>(indent * at), ' ');
  };
  bool first = true;
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (!first) *out += indent > 0 ? "," : ", ";
    first = false;
    new_line(level + 1);
    if (!is_array) *out += QuoteForJson(Json(it.key())) + ": ";
    WriteJson(*it, indent, level + 1, out);
  }
  if (!first) new_line(level);
  *out += is_array ? ']' : '}';
}

}  // namespace

Value Undefined() { return Make(Json(Json::value_t::discarded)); }

const std::string& Text(const Json& value) { return *value.get_ptr<const std::string*>(); }

std::optional<int64_t> ToInt(const Json& value) {
  if (value.is_boolean()) return *value.get_ptr<const bool*>() ? 1 : 0;
  if (value.is_number_unsigned()) {
    const uint64_t number = *value.get_ptr<const uint64_t*>();
    if (number > INT64_MAX) return std::nullopt;
    return static_cast<int64_t>(number);
  }
  if (value.is_number_integer()) return *value.get_ptr<const int64_t*>();
  return std::nullopt;
}

std::optional<double> ToDouble(const Json& value) {
  if (value.is_number_float()) return *value.get_ptr<const double*>();
  if (value.is_number_unsigned()) {
    return static_cast<double>(*value.get_ptr<const uint64_t*>());
  }
  const std::optional<int64_t> number = ToInt(value);
  if (!number) return std::nullopt;
  return static_cast<double>(*number);
}

bool IsTrue(const Json& value) {
  if (value.is_discarded() || value.is_null()) return false;
  if (value.is_string()) return !Text(value).empty();
  if (value.is_structured()) return !value.empty();
  const std::optional<double> number = ToDouble(value);
  return !number || *number != 0;
}

bool IsEqual(const Json& a, const Json& b) {
  if (a.is_discarded() || b.is_discarded()) return a.is_discarded() && b.is_discarded();
  if (a.is_object() && b.is_object()) {
    if (a.size() != b.size()) return false;
    for (auto it = a.begin(); it != a.end(); ++it) {
      const auto other = b.find(it.key());
      if (other == b.end() || !IsEqual(*it, *other)) return false;
    }
    return true;
  }
  if (a.is_array() && b.is_array()) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), IsEqual);
  }
  const std::optional<double> left = ToDouble(a);
  const std::optional<double> right = ToDouble(b);
  if (left && right) return *left == *right;
  return a == b;
}

std::optional<int> Compare(const Json& a, const Json& b) {
  if (a.is_string() && b.is_string()) return Text(a).compare(Text(b));
  const std::optional<int64_t> i = ToInt(a);
  const std::optional<int64_t> j = ToInt(b);
  if (i && j) return *i < *j ? -1 : static_cast<int>(*i > *j);
  const std::optional<double> x = ToDouble(a);
  const std::optional<double> y = ToDouble(b);
  if (!x || !y) return std::nullopt;
  return *x < *y ? -1 : static_cast<int>(*x > *y);
}

bool Contains(const Json& container, const Json& item) {
  if (container.is_string()) {
    return item.is_string() && Text(container).find(Text(item)) != std::string::npos;
  }
  if (container.is_object()) return item.is_string() && container.contains(Text(item));
  if (!container.is_array()) return false;
  return std::any_of(container.begin(), container.end(),
                     [&](const Json& member) { return IsEqual(member, item); });
}

size_t Length(const Json& value) {
  if (value.is_string()) return CountUtf8(Text(value));
  return value.is_structured() ? value.size() : 0;
}

std::string ToText(const Json& value) {
  if (value.is_discarded()) return {};
  if (value.is_null()) return "None";
  if (value.is_boolean()) return IsTrue(value) ? "True" : "False";
  if (value.is_string()) return Text(value);
  if (value.is_number_float()) return FloatText(*ToDouble(value));
  if (!value.is_structured()) return value.dump();
  std::string out(1, value.is_array() ? '[' : '{');
  for (auto it = value.begin(); it != value.end(); ++it) {
    if (it != value.begin()) out += ", ";
    if (value.is_object()) out += QuoteForPython(it.key()) + ": ";
    out += Repr(*it);
  }
  return out + (value.is_array() ? ']' : '}');
}

std::string_view KindName(const Json& value) {
  if (value.is_discarded()) return "an undefined value";
  if (value.is_null()) return "none";
  if (value.is_boolean()) return "a boolean";
  if (value.is_string()) return "a string";
  if (value.is_array()) return "a list";
  return value.is_object() ? "a mapping" : "a number";
}

std::string ToJsonText(const Json& value, int indent) {
  std::string out;
  WriteJson(value, indent, 0, &out);
  return out;
}

int64_t Weight(const Json& value, int64_t limit) {
  int64_t weight = 1;
  if (value.is_string()) weight += static_cast<int64_t>(Text(value).size() / 256);
  if (!value.is_structured()) return weight;
  for (const Json& member : value) {
    if (weight >= limit) break;
    weight += Weight(member, limit - weight);
  }
  return weight;
}

int Depth(const Json& value) {
  int depth = 0;
  if (!value.is_structured()) return 1;
  for (const Json& member : value) depth = std::max(depth, Depth(member));
  return depth + 1;
}

std::vector<std::string_view> Characters(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    const size_t bytes = c.state == Utf8Char::State::kWhole ? c.size : 1;
    characters.push_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return characters;
}

std::string_view Strip(std::string_view text, std::string_view characters, bool left, bool right) {
  if (left) {
    const size_t first = text.find_first_not_of(characters);
    text.remove_prefix(first == std::string_view::npos ? text.size() : first);
  }
  if (right) {
    const size_t last = text.find_last_not_of(characters);
    text = text.substr(0, last == std::string_view::npos ? 0 : last + 1);
  }
  return text;
}

std::string MapAscii(std::string_view text, bool upper) {
  std::string out(text);
  for (char& c : out) {
    if (upper ? (c >= 'a' && c <= 'z') : (c >= 'A' && c <= 'Z')) c = static_cast<char>(c ^ 0x20);
  }
  return out;
}

}  // namespace mooring::jinja
