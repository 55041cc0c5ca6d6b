#include "text/jinja_interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>

#include "text/jinja_lexer.h"

namespace mooring::jinja {
namespace {

constexpr int64_t kStepsPerClock = 512;

// Time this thread has worked. Not the time of day: how busy the machine is must not decide whether
// a message can be rendered.
std::chrono::nanoseconds WorkedTime() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

}  // namespace

Interpreter::Interpreter(const Budget& budget, size_t output_limit)
    : budget_(budget), output_limit_(output_limit), deadline_(WorkedTime() + budget.time) {}

Result<std::string> Interpreter::Run(const Body& body, const Json& variables) {
  // Borrowed, not owned: `variables` outlives the walk.
  const Value root(Value(), &variables);
  scopes_.emplace_back();
  if (variables.is_object()) {
    for (auto it = variables.begin(); it != variables.end(); ++it) {
      scopes_.back()[it.key()] = Part(root, *it);
    }
  }
  Execute(body);
  if (failed()) return *std::move(error_);
  return std::move(output_);
}

void Interpreter::Fail(int line, Error error) {
  if (failed()) return;
  if (error.kind == ErrorKind::kFailed) error = TemplateError(std::move(error.what), line, {});
  if (error.where.empty()) error.where = fmt::format("chat template, line {}", line);
  error_ = std::move(error);
}

void Interpreter::Fail(int line, std::string what) {
  Fail(line, Error{.kind = ErrorKind::kFailed, .what = std::move(what)});
}

void Interpreter::FailBudget(std::string what) {
  if (failed()) return;
  error_ = Error{.kind = ErrorKind::kResources,
                 .what = "rendering the chat template exceeds the " + std::move(what),
                 .remedy = "give another template with --template NAME|FILE"};
}

void Interpreter::Charge(int64_t steps) {
  steps_ += steps;
  if (steps_ > budget_.steps) FailBudget(fmt::format("budget of {} steps", budget_.steps));
  if (steps_ < next_clock_step_) return;
  next_clock_step_ = steps_ + kStepsPerClock;
  if (WorkedTime() > deadline_) {
    FailBudget(fmt::format("budget of {} ms", budget_.time.count()));
  }
}

Value Interpreter::Made(int line, Json json) {
  if (json.is_structured()) {
    Charge(Weight(json, budget_.steps));
    // Counted after the charge, which bounds what there is to walk.
    if (!failed() && Depth(json) > budget_.value_depth) {
      Fail(line, fmt::format("a value nests deeper than {}", budget_.value_depth));
    }
  } else if (json.is_string()) {
    const size_t bytes = Text(json).size();
    Charge(static_cast<int64_t>(bytes) / kStringBytesPerStep);
    if (bytes > output_limit_) FailBudget(fmt::format("output budget of {} bytes", output_limit_));
  }
  return failed() ? Undefined() : Make(std::move(json));
}

void Interpreter::Write(std::string_view text) {
  if (output_.size() + text.size() > output_limit_) {
    return FailBudget(fmt::format("output budget of {} bytes", output_limit_));
  }
  output_ += text;
}

Interpreter::Flow Interpreter::Execute(const Body& body) {
  for (const Stmt& stmt : body) {
    Charge(1);
    if (failed()) return Flow::kBreak;
    const Flow flow = ExecuteStmt(stmt);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteStmt(const Stmt& stmt) {
  switch (stmt.kind) {
    case StmtKind::kText:
      Write(stmt.text);
      return Flow::kNormal;
    case StmtKind::kOutput: {
      const Value value = Eval(*stmt.expr);
      if (!failed()) Write(value->is_string() ? Text(value) : ToText(*value));
      return Flow::kNormal;
    }
    case StmtKind::kIf:
      for (const Branch& branch : stmt.branches) {
        if (IsTrue(*Eval(*branch.condition))) return Execute(branch.body);
        if (failed()) return Flow::kBreak;
      }
      return Execute(stmt.otherwise);
    case StmtKind::kFor:
      return ExecuteFor(stmt);
    case StmtKind::kSet:
      ExecuteSet(stmt);
      return Flow::kNormal;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kScope:
      return Execute(stmt.body);
  }
  return Flow::kNormal;
}

std::vector<Value> Interpreter::MembersOf(int line, const Value& value) {
  std::vector<Value> members;
  Charge(static_cast<int64_t>(Length(*value)));
  if (failed()) return members;
  if (value->is_string()) {
    for (const std::string_view c : Characters(Text(value))) {
      members.push_back(Make(Json(std::string(c))));
    }
  } else if (value->is_array()) {
    for (const Json& member : *value) members.push_back(Part(value, member));
  } else if (value->is_object()) {
    for (auto it = value->begin(); it != value->end(); ++it) {
      members.push_back(Make(Json(it.key())));
    }
  } else if (!value->is_discarded()) {
    Fail(line, fmt::format("a loop over {}", KindName(*value)));
  }
  return members;
}

void Interpreter::Bind(int line, const std::vector<std::string>& targets, const Value& value) {
  if (targets.size() == 1) {
    scopes_.back()[targets[0]] = value;
    return;
  }
  if (!value->is_array() || value->size() != targets.size()) {
    return Fail(line, fmt::format("{} names are given {}", targets.size(), KindName(*value)));
  }
  size_t i = 0;
  for (const Json& member : *value) scopes_.back()[targets[i++]] = Part(value, member);
}

Interpreter::Flow Interpreter::ExecuteFor(const Stmt& stmt) {
  std::vector<Value> members = MembersOf(stmt.line, Eval(*stmt.expr));
  scopes_.emplace_back();
  if (stmt.condition != nullptr) {
    std::vector<Value> kept;
    for (const Value& member : members) {
      Charge(1);
      if (failed()) break;
      Bind(stmt.line, stmt.targets, member);
      if (!failed() && IsTrue(*Eval(*stmt.condition))) kept.push_back(member);
    }
    members = std::move(kept);
  }
  loops_.push_back({&members, 0});
  for (size_t i = 0; i < members.size() && !failed(); ++i) {
    Charge(1);
    loops_.back().index = i;
    scopes_.back().clear();
    Bind(stmt.line, stmt.targets, members[i]);
    if (!failed() && Execute(stmt.body) == Flow::kBreak) break;
  }
  loops_.pop_back();
  scopes_.pop_back();
  if (failed()) return Flow::kBreak;
  return members.empty() ? Execute(stmt.otherwise) : Flow::kNormal;
}

void Interpreter::ExecuteSet(const Stmt& stmt) {
  Value value;
  if (stmt.expr != nullptr) {
    value = Eval(*stmt.expr);
  } else {
    // A block: what its body writes, taken back out of the output.
    const size_t begin = output_.size();
    Execute(stmt.body);
    value = Made(stmt.line, Json(output_.substr(begin)));
    output_.resize(begin);
  }
  if (failed()) return;
  if (stmt.attribute.empty()) return Bind(stmt.line, stmt.targets, value);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    const auto found = scope->find(stmt.targets[0]);
    if (found == scope->end() || !found->second->is_object()) continue;
    Json object = *found->second;
    object[stmt.attribute] = *value;
    found->second = Made(stmt.line, std::move(object));
    return;
  }
  Fail(stmt.line, fmt::format("'{}' is no namespace", stmt.targets[0]));
}

}  // namespace mooring::jinja
