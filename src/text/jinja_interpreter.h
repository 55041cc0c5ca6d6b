// Walks the tree of a template once, over its variables, within a budget.
//
// After the first error every step is a no-op that gives "undefined", so a walk ends quickly and
// the error is looked at in one place.
//
// Thread rule: one interpreter is one rendering, on one thread.
#ifndef MOORING_TEXT_JINJA_INTERPRETER_H_
#define MOORING_TEXT_JINJA_INTERPRETER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "text/jinja.h"
#include "text/jinja_ast.h"
#include "text/jinja_builtins.h"

namespace mooring::jinja {

// A string that is made costs a step per this many bytes, as the copying does.
inline constexpr int64_t kStringBytesPerStep = 256;

class Interpreter {
 public:
  Interpreter(const Budget& budget, size_t output_limit);

  Result<std::string> Run(const Body& body, const Json& variables);

 private:
  struct Loop {
    const std::vector<Value>* members;
    size_t index;
  };
  enum class Flow { kNormal, kBreak, kContinue };
  using Scope = std::map<std::string, Value, std::less<>>;

  bool failed() const { return error_.has_value(); }
  void Fail(int line, Error error);
  void Fail(int line, std::string what);
  void FailBudget(std::string what);
  // Counts work; every step, and every copy in proportion to its size, goes through here.
  void Charge(int64_t steps);
  // A value that an expression made: charged for and held to the limits.
  Value Made(int line, Json json);

  Flow Execute(const Body& body);
  Flow ExecuteStmt(const Stmt& stmt);
  Flow ExecuteFor(const Stmt& stmt);
  void ExecuteSet(const Stmt& stmt);
  void Write(std::string_view text);

  std::vector<Value> MembersOf(int line, const Value& value);
  void Bind(int line, const std::vector<std::string>& targets, const Value& value);
  const Value* Find(std::string_view name) const;

  Value Eval(const Expr& expr);
  Value EvalUnary(const Expr& expr);
  Value EvalBinary(const Expr& expr);
  Value EvalCompare(const Expr& expr);
  Value EvalAttribute(const Expr& expr);
  Value EvalIndex(const Expr& expr);
  Value EvalSlice(const Expr& expr);
  Value EvalCall(const Expr& expr);
  Value EvalName(const Expr& expr);
  Value LoopValue(std::string_view name) const;
  Value Arithmetic(int line, std::string_view op, const Json& left, const Json& right);
  bool Comparison(int line, std::string_view op, const Json& left, const Json& right);

  Budget budget_;
  size_t output_limit_;
  int64_t steps_ = 0;
  int64_t next_clock_step_ = 0;
  std::chrono::nanoseconds deadline_;  // of the time this thread has worked
  std::string output_;
  std::vector<Scope> scopes_;
  std::vector<Loop> loops_;
  std::optional<Error> error_;
};

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_INTERPRETER_H_
