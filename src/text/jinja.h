// A small Jinja: enough for the chat templates that model files carry, with no way out of it.
//
// It reads and writes nothing but its arguments, and every rendering is bounded: steps, output,
// depth of values, length of ranges and time. A template comes from a model file, so it is hostile
// until proven otherwise; a budget that runs out is an error that names the budget.
//
// Thread rule: const once parsed; any number of threads may render.
#ifndef MOORING_TEXT_JINJA_H_
#define MOORING_TEXT_JINJA_H_

#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/jinja_ast.h"

namespace mooring::jinja {

struct Budget {
  int64_t steps = 1'000'000;
  size_t output_bytes = 64 * 1024;  // beyond four times the input
  int value_depth = 64;
  std::chrono::milliseconds time{1000};  // of work, not of waiting for a busy machine
};

class Template {
 public:
  // Fails with kModelInvalid, naming the construct and its line, for what cannot be rendered.
  static Result<Template> Create(std::string_view source);

  // `variables` is an object: the template's globals. The kind of an error tells who is at fault:
  // kUsage, the template called raise_exception; kResources, a budget ran out; kModelInvalid, the
  // template itself.
  Result<std::string> Render(const Json& variables, const Budget& budget = {}) const;

 private:
  Template(Body body, size_t source_bytes);

  std::shared_ptr<const Body> body_;
  size_t source_bytes_;
};

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_H_
