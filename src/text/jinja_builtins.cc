#include "text/jinja_builtins.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "text/jinja_predicates.h"
#include "text/utf8.h"

namespace mooring::jinja {
namespace {

struct Entry {
  std::string_view name;
  Function function;
};

Error Fault(std::string what) { return Error{.kind = ErrorKind::kFailed, .what = std::move(what)}; }

Error WrongKind(const Call& call) {
  return Fault(fmt::format("'{}' does not work on {}", call.name, KindName(*call.input)));
}

Error TooLong(const Call& call) {
  return Error{.kind = ErrorKind::kResources,
               .what = fmt::format("the result of '{}' exceeds the output budget", call.name)};
}

Result<Value> MakeBounded(const Call& call, std::string text) {
  if (text.size() > call.limit) return TooLong(call);
  return Make(Json(std::move(text)));
}

const std::string* TextArg(const Call& call, size_t index, std::string_view keyword) {
  const Value* arg = call.Arg(index, keyword);
  return arg != nullptr && (*arg)->is_string() ? &Text(*arg) : nullptr;
}

int64_t IntArg(const Call& call, size_t index, std::string_view keyword, int64_t otherwise) {
  const Value* arg = call.Arg(index, keyword);
  return arg == nullptr ? otherwise : ToInt(**arg).value_or(otherwise);
}

Error TooMany(const Call& call) {
  return Error{.kind = ErrorKind::kResources,
               .what = fmt::format("'{}' exceeds the budget of {} members", call.name, kMaxRange)};
}

// The members that iterating over a value gives: of a string its characters, of a mapping its keys.
Result<Json> Members(const Call& call, const Json& value) {
  Json list = Json::array();
  if (value.is_string()) {
    if (Text(value).size() > static_cast<size_t>(kMaxRange)) return TooMany(call);
    for (const std::string_view c : Characters(Text(value))) list.push_back(std::string(c));
  } else if (value.is_object()) {
    for (auto it = value.begin(); it != value.end(); ++it) list.push_back(it.key());
  } else if (value.is_array()) {
    list = value;
  }
  return list;
}

Json Items(const Json& object) {
  Json list = Json::array();
  if (!object.is_object()) return list;
  for (auto it = object.begin(); it != object.end(); ++it) {
    Json pair = Json::array();
    pair.push_back(it.key());
    pair.push_back(*it);
    list.push_back(std::move(pair));
  }
  return list;
}

template <bool kLeft, bool kRight>
Result<Value> StripText(const Call& call) {
  const std::string* characters = TextArg(call, 0, "chars");
  return Make(Json(std::string(Strip(
      ToText(*call.input), characters == nullptr ? kWhitespace : *characters, kLeft, kRight))));
}

template <bool kUpper>
Result<Value> ChangeCase(const Call& call) {
  return Make(Json(MapAscii(ToText(*call.input), kUpper)));
}

Result<Value> Capitalize(const Call& call) {
  std::string text = MapAscii(ToText(*call.input), false);
  return Make(
      Json(MapAscii(text.substr(0, 1), true) + text.substr(std::min<size_t>(1, text.size()))));
}

Result<Value> Title(const Call& call) {
  std::string text = MapAscii(ToText(*call.input), false);
  bool in_word = false;
  for (char& c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || static_cast<uint8_t>(c) >= 0x80;
    if (letter && !in_word) c = MapAscii(std::string_view(&c, 1), true)[0];
    in_word = letter;
  }
  return Make(Json(std::move(text)));
}

Result<Value> LengthOf(const Call& call) {
  const Json& value = *call.input;
  if (!value.is_string() && !value.is_structured() && !value.is_discarded()) return WrongKind(call);
  return Make(Json(static_cast<int64_t>(Length(value))));
}

Result<Value> Default(const Call& call) {
  const Value* also_false = call.Arg(1, "boolean");
  const bool replace = call.input->is_discarded() ||
                       (also_false != nullptr && IsTrue(**also_false) && !IsTrue(*call.input));
  if (!replace) return call.input;
  const Value* other = call.Arg(0, "default_value");
  return other == nullptr ? Make(Json("")) : *other;
}

Value Attribute(const Value& object, std::string_view path) {
  Value value = object;
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string key(path.substr(0, dot));
    if (!value->is_object() || !value->contains(key)) return Undefined();
    value = Part(value, *value->find(key));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
}

Result<Value> JoinList(const Call& call, const Json& list, const std::string& between,
                       std::string_view attribute) {
  MOORING_ASSIGN_OR_RETURN(const Json members, Members(call, list));
  std::string out;
  bool first = true;
  for (const Json& member : members) {
    if (!first) out += between;
    first = false;
    out += attribute.empty() ? ToText(member) : ToText(*Attribute(Make(member), attribute));
    if (out.size() > call.limit) return TooLong(call);
  }
  return Make(Json(std::move(out)));
}

Result<Value> JoinFilter(const Call& call) {
  const std::string* between = TextArg(call, 0, "d");
  const std::string* attribute = TextArg(call, 1, "attribute");
  return JoinList(call, *call.input, between == nullptr ? "" : *between,
                  attribute == nullptr ? "" : *attribute);
}

Result<Value> JoinMethod(const Call& call) {
  if (!call.input->is_string() || call.args.empty()) return WrongKind(call);
  return JoinList(call, *call.args[0], Text(call.input), "");
}

Result<Value> ToJsonFilter(const Call& call) {
  const int64_t indent = std::clamp<int64_t>(IntArg(call, 0, "indent", 0), 0, 16);
  return MakeBounded(call, ToJsonText(*call.input, static_cast<int>(indent)));
}

template <bool kFirst>
Result<Value> EndOf(const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Json members, Members(call, *call.input));
  if (members.empty()) return Undefined();
  return Make(kFirst ? members.front() : members.back());
}

Result<Value> Replace(const Call& call) {
  const std::string text = ToText(*call.input);
  const std::string* from = TextArg(call, 0, "old");
  const std::string* to = TextArg(call, 1, "new");
  int64_t left = IntArg(call, 2, "count", -1);
  if (from == nullptr || to == nullptr) return Fault("'replace' needs two strings");
  if (from->empty()) return Fault("'replace' of an empty string is not supported");
  std::string out;
  size_t at = 0;
  for (size_t next = text.find(*from); next != std::string::npos && left != 0; --left) {
    out.append(text, at, next - at).append(*to);
    if (out.size() > call.limit) return TooLong(call);
    at = next + from->size();
    next = text.find(*from, at);
  }
  return MakeBounded(call, out.append(text, at));
}

Result<Value> ToTextFilter(const Call& call) { return MakeBounded(call, ToText(*call.input)); }
Result<Value> ToListFilter(const Call& call) {
  MOORING_ASSIGN_OR_RETURN(Json members, Members(call, *call.input));
  return Make(std::move(members));
}
Result<Value> Same(const Call& call) { return call.input; }

Result<Value> ItemsOf(const Call& call) {
  if (!call.input->is_object() && !call.input->is_discarded()) return WrongKind(call);
  return Make(Items(*call.input));
}

Result<Value> KeysOf(const Call& call) {
  if (!call.input->is_object()) return WrongKind(call);
  return ToListFilter(call);
}

Result<Value> ValuesOf(const Call& call) {
  if (!call.input->is_object()) return WrongKind(call);
  Json list = Json::array();
  for (const Json& member : *call.input) list.push_back(member);
  return Make(std::move(list));
}

Result<Value> GetOf(const Call& call) {
  const std::string* key = TextArg(call, 0, "key");
  if (!call.input->is_object() || key == nullptr) return WrongKind(call);
  const auto found = call.input->find(*key);
  if (found != call.input->end()) return Part(call.input, *found);
  return call.args.size() > 1 ? call.args[1] : Make(Json());
}

Result<Value> IntFilter(const Call& call) {
  int64_t number = IntArg(call, 0, "default", 0);
  const Json& value = *call.input;
  if (const auto whole = ToInt(value)) {
    number = *whole;
  } else if (const auto real = ToDouble(value)) {
    if (std::fabs(*real) < 9e18) number = static_cast<int64_t>(*real);
  } else if (value.is_string()) {
    const std::string_view text = Strip(Text(value), kWhitespace, true, true);
    int64_t parsed = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (result.ec == std::errc() && result.ptr == text.data() + text.size()) number = parsed;
  }
  return Make(Json(number));
}

Result<Value> Abs(const Call& call) {
  if (const auto whole = ToInt(*call.input)) {
    if (*whole == INT64_MIN) return Fault("a number is out of range");
    return Make(Json(*whole < 0 ? -*whole : *whole));
  }
  if (const auto real = ToDouble(*call.input)) return Make(Json(std::fabs(*real)));
  return WrongKind(call);
}

Result<Value> Reverse(const Call& call) {
  MOORING_ASSIGN_OR_RETURN(const Json members, Members(call, *call.input));
  Json list = Json::array();
  for (auto it = members.rbegin(); it != members.rend(); ++it) list.push_back(*it);
  if (!call.input->is_string()) return Make(std::move(list));
  return JoinList(call, list, "", "");
}

Result<Value> Indent(const Call& call) {
  const std::string text = ToText(*call.input);
  const int64_t width = std::clamp<int64_t>(IntArg(call, 0, "width", 4), 0, 256);
  const Value* first = call.Arg(1, "first");
  const Value* blank = call.Arg(2, "blank");
  const std::string space(static_cast<size_t>(width), ' ');
  std::string out = first != nullptr && IsTrue(**first) ? space : "";
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] != '\n' || i + 1 == text.size()) continue;
    if (text[i + 1] != '\n' || (blank != nullptr && IsTrue(**blank))) out += space;
    if (out.size() > call.limit) return TooLong(call);
  }
  return MakeBounded(call, std::move(out));
}

// selectattr, rejectattr and map: the ones that look into each member of a list.
Result<Value> SelectByAttribute(const Call& call, bool wanted) {
  const std::string* attribute = TextArg(call, 0, "attribute");
  const std::string* test = TextArg(call, 1, "test");
  if (attribute == nullptr) return Fault(fmt::format("'{}' needs an attribute", call.name));
  if (test != nullptr && !IsKnown(CallKind::kTest, *test)) {
    return Fault(fmt::format("there is no test '{}'", *test));
  }
  MOORING_ASSIGN_OR_RETURN(const Json members, Members(call, *call.input));
  Json list = Json::array();
  for (const Json& member : members) {
    Call check{.limit = call.limit};
    check.input = Attribute(Make(member), *attribute);
    bool passes = IsTrue(*check.input);
    if (test != nullptr) {
      check.name = *test;
      if (call.args.size() > 2) check.args.push_back(call.args[2]);
      MOORING_ASSIGN_OR_RETURN(const Value result, Apply(CallKind::kTest, check));
      passes = IsTrue(*result);
    }
    if (passes == wanted) list.push_back(member);
  }
  return Make(std::move(list));
}
Result<Value> SelectAttr(const Call& call) { return SelectByAttribute(call, true); }
Result<Value> RejectAttr(const Call& call) { return SelectByAttribute(call, false); }

Result<Value> MapFilter(const Call& call) {
  const Value* attribute = call.Arg(SIZE_MAX, "attribute");
  const std::string* filter = TextArg(call, 0, "filter");
  if (attribute == nullptr &&
      (filter == nullptr || !IsKnown(CallKind::kFilter, *filter) || *filter == "map")) {
    return Fault("'map' needs an attribute or the name of a filter");
  }
  MOORING_ASSIGN_OR_RETURN(const Json members, Members(call, *call.input));
  Json list = Json::array();
  for (const Json& member : members) {
    if (attribute != nullptr) {
      const Value part = Attribute(Make(member), ToText(**attribute));
      list.push_back(*part);
      continue;
    }
    Call inner{.name = *filter, .input = Make(member), .limit = call.limit};
    inner.args.assign(call.args.begin() + 1, call.args.end());
    MOORING_ASSIGN_OR_RETURN(const Value result, Apply(CallKind::kFilter, inner));
    list.push_back(*result);
  }
  return Make(std::move(list));
}

Result<Value> Split(const Call& call) {
  if (!call.input->is_string()) return WrongKind(call);
  std::string_view text = Text(call.input);
  const std::string* between = TextArg(call, 0, "sep");
  int64_t left = IntArg(call, 1, "maxsplit", -1);
  if (between != nullptr && between->empty()) return Fault("'split' by an empty string");
  Json list = Json::array();
  if (between == nullptr) {
    for (text = Strip(text, kWhitespace, true, false); !text.empty();
         text = Strip(text, kWhitespace, true, false)) {
      const size_t end =
          left-- == 0 ? text.size() : std::min(text.find_first_of(kWhitespace), text.size());
      list.push_back(std::string(text.substr(0, end)));
      if (list.size() > static_cast<size_t>(kMaxRange)) return TooMany(call);
      text.remove_prefix(end);
    }
    return Make(std::move(list));
  }
  for (size_t end = text.find(*between); end != std::string_view::npos && left != 0; --left) {
    list.push_back(std::string(text.substr(0, end)));
    if (list.size() > static_cast<size_t>(kMaxRange)) return TooMany(call);
    text.remove_prefix(end + between->size());
    end = text.find(*between);
  }
  list.push_back(std::string(text));
  return Make(std::move(list));
}

template <bool kStart>
Result<Value> HasEnd(const Call& call) {
  if (!call.input->is_string() || call.args.empty()) return WrongKind(call);
  const std::string_view text = Text(call.input);
  const auto matches = [&](const Json& part) {
    if (!part.is_string()) return false;
    return kStart ? text.starts_with(Text(part)) : text.ends_with(Text(part));
  };
  const Json& arg = *call.args[0];
  if (!arg.is_array()) return Make(Json(matches(arg)));
  return Make(Json(std::any_of(arg.begin(), arg.end(), matches)));
}

Result<Value> Find(const Call& call) {
  const std::string* what = TextArg(call, 0, "sub");
  if (!call.input->is_string() || what == nullptr) return WrongKind(call);
  const std::string& text = Text(call.input);
  const size_t at = text.find(*what);
  if (at == std::string::npos) return Make(Json(-1));
  return Make(Json(static_cast<int64_t>(CountUtf8(std::string_view(text).substr(0, at)))));
}

Result<Value> CountMethod(const Call& call) {
  const std::string* what = TextArg(call, 0, "sub");
  if (!call.input->is_string() || what == nullptr || what->empty()) return WrongKind(call);
  const std::string& text = Text(call.input);
  int64_t count = 0;
  for (size_t at = text.find(*what); at != std::string::npos;
       at = text.find(*what, at + what->size())) {
    ++count;
  }
  return Make(Json(count));
}

Result<Value> Range(const Call& call) {
  std::vector<int64_t> bounds;
  for (const Value& arg : call.args) {
    const auto number = ToInt(*arg);
    if (!number) return Fault(fmt::format("'range' does not work on {}", KindName(*arg)));
    bounds.push_back(*number);
  }
  if (bounds.empty() || bounds.size() > 3) return Fault("'range' takes one to three numbers");
  const int64_t start = bounds.size() > 1 ? bounds[0] : 0;
  const int64_t stop = bounds.size() > 1 ? bounds[1] : bounds[0];
  const int64_t step = bounds.size() > 2 ? bounds[2] : 1;
  if (step == 0) return Fault("'range' with a step of zero");
  Json list = Json::array();
  for (int64_t i = start; step > 0 ? i < stop : i > stop;) {
    if (static_cast<int64_t>(list.size()) >= kMaxRange) {
      return Error{.kind = ErrorKind::kResources,
                   .what = fmt::format("'range' exceeds the budget of {} members", kMaxRange)};
    }
    list.push_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Make(std::move(list));
}

Result<Value> MakeMapping(const Call& call) {
  Json object = Json::object();
  if (!call.args.empty() && call.args[0]->is_object()) object = *call.args[0];
  for (const auto& [key, value] : call.keywords) object[key] = *value;
  return Make(std::move(object));
}

Result<Value> RaiseException(const Call& call) {
  return Error{.kind = ErrorKind::kUsage,
               .what = call.args.empty() ? "the chat template refuses these messages"
                                         : ToText(*call.args[0])};
}

constexpr Entry kFilters[] = {{"trim", StripText<true, true>},
                              {"length", LengthOf},
                              {"count", LengthOf},
                              {"default", Default},
                              {"d", Default},
                              {"upper", ChangeCase<true>},
                              {"lower", ChangeCase<false>},
                              {"capitalize", Capitalize},
                              {"title", Title},
                              {"join", JoinFilter},
                              {"tojson", ToJsonFilter},
                              {"first", EndOf<true>},
                              {"last", EndOf<false>},
                              {"replace", Replace},
                              {"string", ToTextFilter},
                              {"list", ToListFilter},
                              {"items", ItemsOf},
                              {"safe", Same},
                              {"int", IntFilter},
                              {"abs", Abs},
                              {"reverse", Reverse},
                              {"indent", Indent},
                              {"selectattr", SelectAttr},
                              {"rejectattr", RejectAttr},
                              {"map", MapFilter}};
constexpr Entry kMethods[] = {{"strip", StripText<true, true>},
                              {"lstrip", StripText<true, false>},
                              {"rstrip", StripText<false, true>},
                              {"split", Split},
                              {"startswith", HasEnd<true>},
                              {"endswith", HasEnd<false>},
                              {"upper", ChangeCase<true>},
                              {"lower", ChangeCase<false>},
                              {"capitalize", Capitalize},
                              {"title", Title},
                              {"replace", Replace},
                              {"find", Find},
                              {"count", CountMethod},
                              {"join", JoinMethod},
                              {"items", ItemsOf},
                              {"keys", KeysOf},
                              {"values", ValuesOf},
                              {"get", GetOf}};
constexpr Entry kFunctions[] = {{"range", Range},
                                {"namespace", MakeMapping},
                                {"dict", MakeMapping},
                                {"raise_exception", RaiseException}};

Function FindFunction(CallKind kind, std::string_view name) {
  const auto in = [name](const auto& entries) -> Function {
    for (const Entry& entry : entries) {
      if (entry.name == name) return entry.function;
    }
    return nullptr;
  };
  switch (kind) {
    case CallKind::kFilter:
      return in(kFilters);
    case CallKind::kTest:
      return FindTest(name);
    case CallKind::kMethod:
      return in(kMethods);
    case CallKind::kFunction:
      return in(kFunctions);
  }
  return nullptr;
}

}  // namespace

const Value* Call::Arg(size_t index, std::string_view keyword) const {
  if (index < args.size()) return &args[index];
  for (const auto& [name_of, value] : keywords) {
    if (name_of == keyword) return &value;
  }
  return nullptr;
}

bool IsKnown(CallKind kind, std::string_view name) { return FindFunction(kind, name) != nullptr; }

Result<Value> Apply(CallKind kind, const Call& call) {
  const Function function = FindFunction(kind, call.name);
  CHECK(function != nullptr, "the parser let '{}' through", call.name);
  return function(call);
}

}  // namespace mooring::jinja
