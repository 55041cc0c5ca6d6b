#include "text/jinja_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "text/jinja_builtins.h"
#include "text/jinja_cursor.h"

// Parse functions return null (or stop) after the first error, which the cursor keeps; callers need
// only look at it before they depend on what they got.
namespace mooring::jinja {
namespace {

class Parser : private LexemeCursor {
 public:
  explicit Parser(std::vector<Lexeme> lexemes) : LexemeCursor(std::move(lexemes)) {}

  Result<Body> Run() {
    Body body = ParseBody();
    if (!failed() && !IsKind(LexKind::kEnd)) Fail("a block ends that was not begun", Here().text);
    if (failed()) return error();
    return body;
  }

 private:
  void EndBlock() { NeedKind(LexKind::kBlockEnd, "'%}'"); }

  // --- statements ---
  // Up to the block that ends or divides the one around it, which stays unread, or to the end.
  Body ParseBody() {
    const Nesting nesting(this);
    Body body;
    while (!failed() && !IsKind(LexKind::kEnd)) {
      Stmt stmt;
      stmt.line = Here().line;
      if (IsKind(LexKind::kText)) {
        stmt.text = Take();
      } else if (IsKind(LexKind::kOutputBegin)) {
        Skip();
        stmt.kind = StmtKind::kOutput;
        stmt.expr = ParseTuple();
        NeedKind(LexKind::kOutputEnd, "'}}'");
      } else {
        const Lexeme& word = Ahead(1);
        if (word.kind == LexKind::kName &&
            (word.text.starts_with("end") || word.text == "else" || word.text == "elif")) {
          return body;
        }
        Skip();
        ParseBlock(&stmt);
      }
      body.push_back(std::move(stmt));
    }
    return body;
  }

  // Eats `{% word %}`.
  void NeedBlock(std::string_view word) {
    if (IsKind(LexKind::kBlockBegin)) Skip();
    if (!TakeWord(word)) return FailExpecting(fmt::format("'{{% {} %}}'", word));
    EndBlock();
  }
  bool AtBlock(std::string_view word) const {
    return IsKind(LexKind::kBlockBegin) && Ahead(1).kind == LexKind::kName && Ahead(1).text == word;
  }

  void ParseBlock(Stmt* stmt) {
    const std::string word = Here().text;
    if (TakeWord("if")) return ParseIf(stmt);
    if (TakeWord("for")) return ParseFor(stmt);
    if (TakeWord("set")) return ParseSet(stmt);
    if (TakeWord("generation")) {
      stmt->kind = StmtKind::kScope;
      EndBlock();
      stmt->body = ParseBody();
      return NeedBlock("endgeneration");
    }
    if (IsWord("break") || IsWord("continue")) {
      if (loops_ == 0) return Fail("it leaves a loop where there is none", word);
      stmt->kind = word == "break" ? StmtKind::kBreak : StmtKind::kContinue;
      Skip();
      return EndBlock();
    }
    Fail("it uses a block that is not supported", fmt::format("'{{% {} %}}'", word));
  }

  void ParseIf(Stmt* stmt) {
    stmt->kind = StmtKind::kIf;
    for (;;) {
      Branch branch;
      branch.condition = ParseExpr();
      EndBlock();
      branch.body = ParseBody();
      stmt->branches.push_back(std::move(branch));
      if (failed() || !AtBlock("elif")) break;
      Skip(2);
    }
    if (AtBlock("else")) {
      NeedBlock("else");
      stmt->otherwise = ParseBody();
    }
    NeedBlock("endif");
  }

  std::vector<std::string> ParseTargets() {
    const bool bracket = TakeOp("(");
    std::vector<std::string> targets{NeedName()};
    while (TakeOp(",")) targets.push_back(NeedName());
    if (bracket) NeedOp(")");
    return targets;
  }

  void ParseFor(Stmt* stmt) {
    stmt->kind = StmtKind::kFor;
    stmt->targets = ParseTargets();
    if (!TakeWord("in")) FailExpecting("'in'");
    stmt->expr = ParseOr();
    if (TakeWord("if")) stmt->condition = ParseExpr();
    if (IsWord("recursive")) Fail("it uses a loop that is not supported", "'recursive'");
    EndBlock();
    ++loops_;
    stmt->body = ParseBody();
    --loops_;
    if (AtBlock("else")) {
      NeedBlock("else");
      stmt->otherwise = ParseBody();
    }
    NeedBlock("endfor");
  }

  void ParseSet(Stmt* stmt) {
    stmt->kind = StmtKind::kSet;
    stmt->targets = ParseTargets();
    if (TakeOp(".")) stmt->attribute = NeedName();
    if (TakeOp("=")) {
      stmt->expr = ParseTuple();
      return EndBlock();
    }
    if (IsOp("|")) Fail("it uses a block that is not supported", "'set' with a filter");
    EndBlock();
    stmt->body = ParseBody();
    NeedBlock("endset");
  }

  // --- expressions ---
  ExprPtr New(ExprKind kind, std::string name = {}) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = Here().line;
    expr->name = std::move(name);
    return expr;
  }

  void AddArg(const ExprPtr& expr, ExprPtr arg) {
    Deepen(expr, arg);
    expr->args.push_back(std::move(arg));
  }
  void Deepen(const ExprPtr& expr, const ExprPtr& arg) {
    if (arg == nullptr) return;
    expr->depth = std::max(expr->depth, arg->depth + 1);
    if (expr->depth > kMaxTreeDepth) {
      Fail(fmt::format("an expression is longer than {} steps", kMaxTreeDepth), Here().text);
    }
  }
  ExprPtr Pair(ExprKind kind, std::string name, ExprPtr left, ExprPtr right) {
    ExprPtr expr = New(kind, std::move(name));
    AddArg(expr, std::move(left));
    AddArg(expr, std::move(right));
    return expr;
  }

  // An expression, or several with commas between: a list.
  ExprPtr ParseTuple() {
    ExprPtr first = ParseExpr();
    if (!IsOp(",")) return first;
    ExprPtr list = New(ExprKind::kList);
    AddArg(list, std::move(first));
    while (!failed() && TakeOp(",")) {
      if (IsOp(")") || IsKind(LexKind::kBlockEnd) || IsKind(LexKind::kOutputEnd)) break;
      AddArg(list, ParseExpr());
    }
    return list;
  }

  ExprPtr ParseExpr() {
    const Nesting nesting(this);
    if (failed()) return New(ExprKind::kLiteral);
    ExprPtr expr = ParseOr();
    while (!failed() && TakeWord("if")) {
      ExprPtr condition = ParseOr();
      expr = Pair(ExprKind::kConditional, {}, std::move(expr), std::move(condition));
      AddArg(expr, TakeWord("else") ? ParseExpr() : nullptr);
    }
    return expr;
  }

  ExprPtr ParseOr() {
    ExprPtr left = ParseAnd();
    while (!failed() && TakeWord("or")) {
      left = Pair(ExprKind::kOr, {}, std::move(left), ParseAnd());
    }
    return left;
  }

  ExprPtr ParseAnd() {
    ExprPtr left = ParseNot();
    while (!failed() && TakeWord("and")) {
      left = Pair(ExprKind::kAnd, {}, std::move(left), ParseNot());
    }
    return left;
  }

  ExprPtr ParseNot() {
    if (failed() || !IsWord("not")) return ParseCompare();
    const Nesting nesting(this);
    ExprPtr expr = New(ExprKind::kUnary, Take());
    AddArg(expr, ParseNot());
    return expr;
  }

  // The comparison that stands here, eaten; empty when there is none.
  std::string TakeComparison() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (TakeOp(op)) return std::string(op);
    }
    if (TakeWord("in")) return "in";
    if (IsWord("not") && Ahead(1).kind == LexKind::kName && Ahead(1).text == "in") {
      Skip(2);
      return "not in";
    }
    return {};
  }

  ExprPtr ParseCompare() {
    ExprPtr left = ParseSum();
    std::string op = failed() ? std::string() : TakeComparison();
    if (op.empty()) return left;
    ExprPtr expr = New(ExprKind::kCompare);
    AddArg(expr, std::move(left));
    while (!failed() && !op.empty()) {
      expr->operators.push_back(std::move(op));
      AddArg(expr, ParseSum());
      op = TakeComparison();
    }
    return expr;
  }

  ExprPtr ParseSum() {
    ExprPtr left = ParseConcat();
    while (!failed() && (IsOp("+") || IsOp("-"))) {
      std::string op = Take();
      left = Pair(ExprKind::kBinary, std::move(op), std::move(left), ParseConcat());
    }
    return left;
  }

  ExprPtr ParseConcat() {
    ExprPtr left = ParseProduct();
    while (!failed() && TakeOp("~")) {
      left = Pair(ExprKind::kBinary, "~", std::move(left), ParseProduct());
    }
    return left;
  }

  ExprPtr ParseProduct() {
    ExprPtr left = ParseUnary(true);
    while (!failed() && (IsOp("*") || IsOp("/") || IsOp("//") || IsOp("%"))) {
      std::string op = Take();
      left = Pair(ExprKind::kBinary, std::move(op), std::move(left), ParseUnary(true));
    }
    if (IsOp("**")) Fail("it uses an operator that is not supported", "'**'");
    return left;
  }

  ExprPtr ParseUnary(bool with_filters) {
    if (failed()) return New(ExprKind::kLiteral);
    ExprPtr expr;
    if (IsOp("-") || IsOp("+")) {
      const Nesting nesting(this);
      expr = New(ExprKind::kUnary, Take());
      AddArg(expr, ParseUnary(false));
    } else {
      expr = ParsePrimary();
    }
    expr = ParsePostfix(std::move(expr));
    return with_filters ? ParseFilters(std::move(expr)) : std::move(expr);
  }

  ExprPtr Literal(Json value) const {
    ExprPtr expr = New(ExprKind::kLiteral);
    expr->value = Make(std::move(value));
    return expr;
  }

  ExprPtr ParsePrimary() {
    if (IsKind(LexKind::kString)) {
      std::string text = Take();
      while (IsKind(LexKind::kString)) text += Take();
      return Literal(std::move(text));
    }
    if (IsKind(LexKind::kInteger) || IsKind(LexKind::kFloat)) return ParseNumber();
    if (IsKind(LexKind::kName)) return ParseName();
    if (TakeOp("(")) {
      if (TakeOp(")")) return New(ExprKind::kList);
      ExprPtr expr = ParseTuple();
      NeedOp(")");
      return expr;
    }
    if (TakeOp("[")) {
      ExprPtr list = New(ExprKind::kList);
      while (!failed() && !IsOp("]")) {
        AddArg(list, ParseExpr());
        if (!TakeOp(",")) break;
      }
      NeedOp("]");
      return list;
    }
    if (TakeOp("{")) {
      ExprPtr dict = New(ExprKind::kDict);
      while (!failed() && !IsOp("}")) {
        AddArg(dict, ParseExpr());
        NeedOp(":");
        AddArg(dict, ParseExpr());
        if (!TakeOp(",")) break;
      }
      NeedOp("}");
      return dict;
    }
    FailExpecting("a value");
    return New(ExprKind::kLiteral);
  }

  ExprPtr ParseNumber() {
    const bool whole = IsKind(LexKind::kInteger);
    const std::string text = Take();
    if (!whole) return Literal(std::strtod(text.c_str(), nullptr));
    int64_t number = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
    if (result.ec != std::errc()) Fail("a number is out of range", text);
    return Literal(number);
  }

  ExprPtr ParseName() {
    const std::string name = Take();
    if (name == "true" || name == "True") return Literal(true);
    if (name == "false" || name == "False") return Literal(false);
    if (name == "none" || name == "None") return Literal(nullptr);
    if (!IsOp("(")) return New(ExprKind::kName, name);
    if (!IsKnown(CallKind::kFunction, name)) {
      Fail("it calls a function that is not supported", fmt::format("'{}'", name));
    }
    ExprPtr call = New(ExprKind::kCall, name);
    ParseArguments(call);
    return call;
  }

  // "(a, b, key=c)"
  void ParseArguments(const ExprPtr& call) {
    NeedOp("(");
    while (!failed() && !IsOp(")")) {
      if (IsOp("*") || IsOp("**")) Fail("it spreads arguments, which is not supported", "'*'");
      const Lexeme& next = Ahead(1);
      if (IsKind(LexKind::kName) && next.kind == LexKind::kOperator && next.text == "=") {
        std::string keyword = Take();
        Skip();
        ExprPtr value = ParseExpr();
        Deepen(call, value);
        call->keywords.emplace_back(std::move(keyword), std::move(value));
      } else {
        AddArg(call, ParseExpr());
      }
      if (!TakeOp(",")) break;
    }
    NeedOp(")");
  }

  ExprPtr ParsePostfix(ExprPtr expr) {
    while (!failed()) {
      if (TakeOp(".")) {
        if (IsKind(LexKind::kInteger)) {
          expr = Pair(ExprKind::kIndex, {}, std::move(expr), ParseNumber());
        } else {
          expr = ParseMember(std::move(expr));
        }
      } else if (TakeOp("[")) {
        expr = ParseIndex(std::move(expr));
      } else if (IsOp("(")) {
        Fail("it calls a value, which is not supported", "'('");
      } else {
        break;
      }
    }
    return expr;
  }

  ExprPtr ParseMember(ExprPtr object) {
    std::string name = NeedName();
    const bool is_call = IsOp("(");
    if (is_call && !IsKnown(CallKind::kMethod, name)) {
      Fail("it calls a method that is not supported", fmt::format("'{}'", name));
    }
    ExprPtr expr = New(is_call ? ExprKind::kMethod : ExprKind::kAttribute, std::move(name));
    AddArg(expr, std::move(object));
    if (is_call) ParseArguments(expr);
    return expr;
  }

  ExprPtr ParseIndex(ExprPtr object) {
    ExprPtr expr = New(ExprKind::kIndex);
    AddArg(expr, std::move(object));
    AddArg(expr, IsOp(":") ? nullptr : ParseExpr());
    if (IsOp(":")) {
      expr->kind = ExprKind::kSlice;
      while (!failed() && TakeOp(":")) {
        AddArg(expr, IsOp(":") || IsOp("]") ? nullptr : ParseExpr());
      }
      if (expr->args.size() > 4) Fail("a slice has too many parts", "':'");
      expr->args.resize(4);
    }
    NeedOp("]");
    return expr;
  }

  ExprPtr ParseFilters(ExprPtr expr) {
    while (!failed()) {
      if (TakeOp("|")) {
        std::string name = NeedName();
        if (!failed() && !IsKnown(CallKind::kFilter, name)) {
          Fail("it uses a filter that is not supported", fmt::format("'{}'", name));
        }
        ExprPtr filter = New(ExprKind::kFilter, std::move(name));
        AddArg(filter, std::move(expr));
        if (IsOp("(")) ParseArguments(filter);
        expr = std::move(filter);
      } else if (TakeWord("is")) {
        expr = ParseTest(std::move(expr));
      } else {
        break;
      }
    }
    return expr;
  }

  ExprPtr ParseTest(ExprPtr input) {
    const bool negated = TakeWord("not");
    std::string name = IsOp("==") ? (Skip(), "eq") : NeedName();
    if (name == "True" || name == "False" || name == "None") name = MapAscii(name, false);
    if (!failed() && !IsKnown(CallKind::kTest, name)) {
      Fail("it uses a test that is not supported", fmt::format("'{}'", name));
    }
    ExprPtr test = New(ExprKind::kTest, std::move(name));
    test->negated = negated;
    AddArg(test, std::move(input));
    const bool is_value =
        IsKind(LexKind::kString) || IsKind(LexKind::kInteger) || IsKind(LexKind::kFloat) ||
        IsOp("[") || IsOp("{") ||
        (IsKind(LexKind::kName) && !IsWord("else") && !IsWord("or") && !IsWord("and") &&
         !IsWord("is") && !IsWord("if") && !IsWord("in") && !IsWord("not"));
    if (IsOp("(")) {
      ParseArguments(test);
    } else if (is_value) {
      AddArg(test, ParsePostfix(ParsePrimary()));
    }
    return test;
  }

  int loops_ = 0;
};

}  // namespace

Result<Body> Parse(std::string_view source) {
  MOORING_ASSIGN_OR_RETURN(std::vector<Lexeme> lexemes, Lex(source));
  return Parser(std::move(lexemes)).Run();
}

}  // namespace mooring::jinja
