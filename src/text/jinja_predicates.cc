#include "text/jinja_predicates.h"

#include <fmt/format.h>

namespace mooring::jinja {
namespace {

struct Entry {
  std::string_view name;
  Function function;
};

Error Missing(const Call& call, std::string_view what) {
  return Error{.kind = ErrorKind::kFailed, .what = fmt::format("'{}' needs {}", call.name, what)};
}

template <bool (*kPredicate)(const Json&)>
Result<Value> Is(const Call& call) {
  return Make(Json(kPredicate(*call.input)));
}
bool IsDefined(const Json& v) { return !v.is_discarded(); }
bool IsUndefined(const Json& v) { return v.is_discarded(); }
bool IsNone(const Json& v) { return v.is_null(); }
bool IsString(const Json& v) { return v.is_string(); }
bool IsMapping(const Json& v) { return v.is_object(); }
bool IsSequence(const Json& v) { return v.is_string() || v.is_structured(); }
bool IsBoolean(const Json& v) { return v.is_boolean(); }
bool IsNumber(const Json& v) { return v.is_number() || v.is_boolean(); }
bool IsInteger(const Json& v) { return v.is_number_integer(); }
bool IsFloat(const Json& v) { return v.is_number_float(); }
bool IsTrueValue(const Json& v) { return v.is_boolean() && IsTrue(v); }
bool IsFalseValue(const Json& v) { return v.is_boolean() && !IsTrue(v); }
bool IsOdd(const Json& v) { return ToInt(v).value_or(0) % 2 != 0; }
bool IsEven(const Json& v) { return ToInt(v).value_or(1) % 2 == 0; }

Result<Value> IsIn(const Call& call) {
  if (call.args.empty()) return Missing(call, "a container");
  return Make(Json(Contains(*call.args[0], *call.input)));
}
Result<Value> IsEqualTo(const Call& call) {
  if (call.args.empty()) return Missing(call, "a value");
  return Make(Json(IsEqual(*call.input, *call.args[0])));
}

constexpr Entry kTests[] = {{"defined", Is<IsDefined>},   {"undefined", Is<IsUndefined>},
                            {"none", Is<IsNone>},         {"string", Is<IsString>},
                            {"mapping", Is<IsMapping>},   {"iterable", Is<IsSequence>},
                            {"sequence", Is<IsSequence>}, {"boolean", Is<IsBoolean>},
                            {"number", Is<IsNumber>},     {"integer", Is<IsInteger>},
                            {"float", Is<IsFloat>},       {"true", Is<IsTrueValue>},
                            {"false", Is<IsFalseValue>},  {"odd", Is<IsOdd>},
                            {"even", Is<IsEven>},         {"in", IsIn},
                            {"equalto", IsEqualTo},       {"eq", IsEqualTo},
                            {"sameas", IsEqualTo}};
}  // namespace

Function FindTest(std::string_view name) {
  for (const Entry& entry : kTests) {
    if (entry.name == name) return entry.function;
  }
  return nullptr;
}

}  // namespace mooring::jinja
