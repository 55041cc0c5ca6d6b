// The half of the interpreter that evaluates expressions.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "text/jinja_interpreter.h"

namespace mooring::jinja {

const Value* Interpreter::Find(std::string_view name) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(name);
    if (found != scope->end()) return &found->second;
  }
  return nullptr;
}

Value Interpreter::Eval(const Expr& expr) {
  Charge(1);
  if (failed()) return Undefined();
  switch (expr.kind) {
    case ExprKind::kLiteral:
      return expr.value;
    case ExprKind::kName:
      return EvalName(expr);
    case ExprKind::kList: {
      Json list = Json::array();
      for (const ExprPtr& arg : expr.args) {
        const Value member = Eval(*arg);
        Charge(Weight(*member, budget_.steps));
        if (failed()) return Undefined();
        list.push_back(*member);
      }
      return Made(expr.line, std::move(list));
    }
    case ExprKind::kDict: {
      Json object = Json::object();
      for (size_t i = 0; i + 1 < expr.args.size(); i += 2) {
        const Value key = Eval(*expr.args[i]);
        const Value member = Eval(*expr.args[i + 1]);
        Charge(Weight(*key, budget_.steps) + Weight(*member, budget_.steps));
        if (failed()) return Undefined();
        object[ToText(*key)] = *member;
      }
      return Made(expr.line, std::move(object));
    }
    case ExprKind::kUnary:
      return EvalUnary(expr);
    case ExprKind::kBinary:
      return EvalBinary(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      Value left = Eval(*expr.args[0]);
      return IsTrue(*left) == (expr.kind == ExprKind::kOr) ? left : Eval(*expr.args[1]);
    }
    case ExprKind::kCompare:
      return EvalCompare(expr);
    case ExprKind::kConditional:
      if (IsTrue(*Eval(*expr.args[1]))) return Eval(*expr.args[0]);
      return expr.args[2] == nullptr ? Undefined() : Eval(*expr.args[2]);
    case ExprKind::kAttribute:
      return EvalAttribute(expr);
    case ExprKind::kIndex:
      return EvalIndex(expr);
    case ExprKind::kSlice:
      return EvalSlice(expr);
    case ExprKind::kFilter:
    case ExprKind::kTest:
    case ExprKind::kMethod:
    case ExprKind::kCall:
      return EvalCall(expr);
  }
  return Undefined();
}

Value Interpreter::LoopValue(std::string_view name) const {
  const Loop& loop = loops_.back();
  const auto index = static_cast<int64_t>(loop.index);
  const auto length = static_cast<int64_t>(loop.members->size());
  if (name == "index") return Make(Json(index + 1));
  if (name == "index0") return Make(Json(index));
  if (name == "revindex") return Make(Json(length - index));
  if (name == "revindex0") return Make(Json(length - index - 1));
  if (name == "first") return Make(Json(index == 0));
  if (name == "last") return Make(Json(index + 1 == length));
  if (name == "length") return Make(Json(length));
  if (name == "depth") return Make(Json(static_cast<int64_t>(loops_.size())));
  if (name == "depth0") return Make(Json(static_cast<int64_t>(loops_.size()) - 1));
  if (name == "previtem" && index > 0) return (*loop.members)[loop.index - 1];
  if (name == "nextitem" && index + 1 < length) return (*loop.members)[loop.index + 1];
  return Undefined();
}

Value Interpreter::EvalName(const Expr& expr) {
  if (const Value* value = Find(expr.name)) return *value;
  if (expr.name != "loop" || loops_.empty()) return Undefined();
  Json loop = Json::object();
  for (const char* name : {"index", "index0", "revindex", "revindex0", "first", "last", "length"}) {
    loop[name] = *LoopValue(name);
  }
  return Make(std::move(loop));
}

Value Interpreter::EvalAttribute(const Expr& expr) {
  const Expr& object_expr = *expr.args[0];
  if (object_expr.kind == ExprKind::kName && object_expr.name == "loop" && !loops_.empty() &&
      Find("loop") == nullptr) {
    return LoopValue(expr.name);
  }
  const Value object = Eval(object_expr);
  if (object->is_discarded() && !failed()) {
    Fail(expr.line, fmt::format("'.{}' of an undefined value", expr.name));
  }
  if (!object->is_object()) return Undefined();
  const auto found = object->find(expr.name);
  return found == object->end() ? Undefined() : Part(object, *found);
}

Value Interpreter::EvalIndex(const Expr& expr) {
  const Value object = Eval(*expr.args[0]);
  const Value key = Eval(*expr.args[1]);
  if (failed()) return Undefined();
  if (object->is_discarded()) {
    Fail(expr.line, fmt::format("'[{}]' of an undefined value", ToText(*key)));
  }
  if (object->is_object()) {
    const auto found = object->find(ToText(*key));
    return !key->is_string() || found == object->end() ? Undefined() : Part(object, *found);
  }
  const std::optional<int64_t> number = ToInt(*key);
  if (!number || (!object->is_array() && !object->is_string())) return Undefined();
  const auto length = static_cast<int64_t>(Length(*object));
  const int64_t at = *number < 0 ? *number + length : *number;
  if (at < 0 || at >= length) return Undefined();
  const auto index = static_cast<size_t>(at);
  if (object->is_array()) return Part(object, *std::next(object->begin(), at));
  Charge(length / kStringBytesPerStep);
  return Make(Json(std::string(Characters(Text(object))[index])));
}

Value Interpreter::EvalSlice(const Expr& expr) {
  const Value object = Eval(*expr.args[0]);
  std::optional<int64_t> bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.args[i + 1] != nullptr) bounds[i] = ToInt(*Eval(*expr.args[i + 1]));
  }
  if (failed()) return Undefined();
  if (!object->is_array() && !object->is_string()) {
    Fail(expr.line, fmt::format("a slice of {}", KindName(*object)));
    return Undefined();
  }
  const std::vector<Value> members = MembersOf(expr.line, object);
  const auto length = static_cast<int64_t>(members.size());
  // A step beyond the length in size selects one member, whatever its size.
  const int64_t step = std::clamp<int64_t>(bounds[2].value_or(1), -length - 1, length + 1);
  if (step == 0) {
    Fail(expr.line, "a slice with a step of zero");
    return Undefined();
  }
  const auto clip = [&](const std::optional<int64_t>& bound, int64_t otherwise) {
    if (!bound) return otherwise;
    const int64_t at = *bound < 0 ? std::max(*bound, -length - 1) + length : *bound;
    return step > 0 ? std::clamp<int64_t>(at, 0, length) : std::clamp<int64_t>(at, -1, length - 1);
  };
  const int64_t start = clip(bounds[0], step > 0 ? 0 : length - 1);
  const int64_t stop = clip(bounds[1], step > 0 ? length : -1);
  Json list = Json::array();
  std::string text;
  for (int64_t i = start; step > 0 ? i < stop : i > stop; i += step) {
    const Json& member = *members[static_cast<size_t>(i)];
    if (object->is_string()) {
      text += Text(member);
    } else {
      list.push_back(member);
    }
  }
  return Made(expr.line, object->is_string() ? Json(std::move(text)) : std::move(list));
}

Value Interpreter::EvalUnary(const Expr& expr) {
  const Value operand = Eval(*expr.args[0]);
  if (failed()) return Undefined();
  if (expr.name == "not") return Make(Json(!IsTrue(*operand)));
  return Arithmetic(expr.line, expr.name, Json(0), *operand);
}

Value Interpreter::EvalBinary(const Expr& expr) {
  const Value left = Eval(*expr.args[0]);
  const Value right = Eval(*expr.args[1]);
  if (failed()) return Undefined();
  const bool joins =
      expr.name == "~" || (expr.name == "+" && left->is_string() && right->is_string());
  if (joins) return Made(expr.line, Json(ToText(*left) + ToText(*right)));
  if (expr.name == "+" && left->is_array() && right->is_array()) {
    Json list = *left;
    list.insert(list.end(), right->begin(), right->end());
    return Made(expr.line, std::move(list));
  }
  return Arithmetic(expr.line, expr.name, *left, *right);
}

Value Interpreter::Arithmetic(int line, std::string_view op, const Json& left, const Json& right) {
  const std::optional<double> x = ToDouble(left);
  const std::optional<double> y = ToDouble(right);
  if (!x || !y) {
    Fail(line, fmt::format("'{}' between {} and {}", op, KindName(left), KindName(right)));
    return Undefined();
  }
  const bool divides = op == "/" || op == "//" || op == "%";
  if (divides && *y == 0) {
    Fail(line, "a division by zero");
    return Undefined();
  }
  const std::optional<int64_t> i = ToInt(left);
  const std::optional<int64_t> j = ToInt(right);
  if (i && j && op != "/") {
    int64_t result = 0;
    bool overflow = false;
    if (op == "+") overflow = __builtin_add_overflow(*i, *j, &result);
    if (op == "-") overflow = __builtin_sub_overflow(*i, *j, &result);
    if (op == "*") overflow = __builtin_mul_overflow(*i, *j, &result);
    if (divides && *j == -1) {
      overflow = op == "//" && __builtin_sub_overflow(int64_t{0}, *i, &result);
    } else if (divides) {
      // Python rounds towards minus infinity, and the remainder has the divisor's sign.
      const int64_t remainder = *i % *j;
      const bool down = remainder != 0 && (remainder < 0) != (*j < 0);
      result = op == "%" ? remainder + (down ? *j : 0) : *i / *j - (down ? 1 : 0);
    }
    if (overflow) Fail(line, "a number is out of range");
    return failed() ? Undefined() : Make(Json(result));
  }
  if (op == "+") return Make(Json(*x + *y));
  if (op == "-") return Make(Json(*x - *y));
  if (op == "*") return Make(Json(*x * *y));
  if (op == "/") return Make(Json(*x / *y));
  const double quotient = std::floor(*x / *y);
  return Make(Json(op == "//" ? quotient : *x - quotient * *y));
}

bool Interpreter::Comparison(int line, std::string_view op, const Json& left, const Json& right) {
  if (op == "==") return IsEqual(left, right);
  if (op == "!=") return !IsEqual(left, right);
  if (op == "in" || op == "not in") {
    if (right.is_string() || right.is_structured()) {
      Charge(Weight(right, budget_.steps));
      return Contains(right, left) == (op == "in");
    }
    if (right.is_discarded()) return op == "not in";
    Fail(line, fmt::format("'{}' {}", op, KindName(right)));
    return false;
  }
  const std::optional<int> order = Compare(left, right);
  if (!order) {
    Fail(line, fmt::format("'{}' between {} and {}", op, KindName(left), KindName(right)));
    return false;
  }
  if (op == "<") return *order < 0;
  if (op == "<=") return *order <= 0;
  return op == ">" ? *order > 0 : *order >= 0;
}

Value Interpreter::EvalCompare(const Expr& expr) {
  Value left = Eval(*expr.args[0]);
  for (size_t i = 0; i < expr.operators.size(); ++i) {
    Value right = Eval(*expr.args[i + 1]);
    if (failed()) return Undefined();
    if (!Comparison(expr.line, expr.operators[i], *left, *right)) return Make(Json(false));
    left = std::move(right);
  }
  return Make(Json(true));
}

Value Interpreter::EvalCall(const Expr& expr) {
  CallKind kind = CallKind::kFunction;
  if (expr.kind == ExprKind::kFilter) kind = CallKind::kFilter;
  if (expr.kind == ExprKind::kTest) kind = CallKind::kTest;
  if (expr.kind == ExprKind::kMethod) kind = CallKind::kMethod;
  Call call{.name = expr.name, .limit = output_limit_};
  for (const ExprPtr& arg : expr.args) {
    Value value = Eval(*arg);
    if (kind != CallKind::kFunction && call.input == nullptr) {
      call.input = std::move(value);
    } else {
      call.args.push_back(std::move(value));
    }
  }
  for (const auto& [keyword, arg] : expr.keywords) call.keywords.emplace_back(keyword, Eval(*arg));
  if (failed()) return Undefined();
  if (kind == CallKind::kMethod && call.input->is_discarded()) {
    Fail(expr.line, fmt::format("'.{}()' of an undefined value", expr.name));
    return Undefined();
  }
  if (kind == CallKind::kTest) {
    Result<Value> result = Apply(kind, call);
    if (result.ok()) return Make(Json(IsTrue(**result) != expr.negated));
    Fail(expr.line, std::move(result).error());
    return Undefined();
  }
  if (call.input != nullptr) Charge(Weight(*call.input, budget_.steps));
  Result<Value> result = Apply(kind, call);
  if (!result.ok()) {
    Fail(expr.line, std::move(result).error());
    return Undefined();
  }
  if ((*result)->is_structured()) Charge(Weight(**result, budget_.steps));
  if (!failed() && Depth(**result) > budget_.value_depth) {
    Fail(expr.line, fmt::format("a value nests deeper than {}", budget_.value_depth));
  }
  return failed() ? Undefined() : *std::move(result);
}

}  // namespace mooring::jinja
