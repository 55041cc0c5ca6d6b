// The tree of a parsed chat template. Plain data, made by the parser, walked by the renderer.
//
// Invariants: no tree is deeper than the parser's limits, so walking and destroying it by recursion
// is safe; every filter, test, method and function in it exists.
//
// Thread rule: const once parsed.
#ifndef MOORING_TEXT_JINJA_AST_H_
#define MOORING_TEXT_JINJA_AST_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "text/jinja_value.h"

namespace mooring::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind {
  kLiteral,      // value
  kName,         // name
  kList,         // args
  kDict,         // args: key, value, key, value
  kUnary,        // name: "not", "-", "+"; args: operand
  kBinary,       // name: the operator; args: left, right
  kAnd,          // args: left, right
  kOr,           // args: left, right
  kCompare,      // args: first operand and one for each of `operators`
  kConditional,  // args: value, condition, other value (or none)
  kAttribute,    // name; args: object
  kIndex,        // args: object, key
  kSlice,        // args: object, start, stop, step, each but the first may be null
  kFilter,       // name; args: input, arguments
  kTest,         // name; args: input, arguments; negated
  kMethod,       // name; args: object, arguments
  kCall,         // name: a global function; args: arguments
};

struct Expr {
  ExprKind kind = ExprKind::kLiteral;
  int line = 0;
  int depth = 1;
  std::string name;
  Value value;
  bool negated = false;
  std::vector<std::string> operators;
  std::vector<ExprPtr> args;
  std::vector<std::pair<std::string, ExprPtr>> keywords;
};

struct Stmt;
using Body = std::vector<Stmt>;

enum class StmtKind {
  kText,    // text
  kOutput,  // expr
  kIf,      // branches; otherwise
  kFor,     // targets, expr, condition (or null), body, otherwise
  kSet,     // targets (or object and attribute), expr; without expr: body
  kBreak,
  kContinue,
  kScope,  // body, as it is (a `generation` block)
};

struct Branch {
  ExprPtr condition;
  Body body;
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 0;
  std::string text;
  ExprPtr expr;
  ExprPtr condition;
  std::vector<std::string> targets;
  std::string attribute;
  std::vector<Branch> branches;
  Body body;
  Body otherwise;
};

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_AST_H_
