#include "text/jinja.h"

#include <algorithm>
#include <utility>

#include "text/jinja_interpreter.h"
#include "text/jinja_parser.h"

namespace mooring::jinja {
namespace {

size_t TextBytes(const Json& value) {
  if (value.is_string()) return Text(value).size();
  size_t bytes = 0;
  if (value.is_structured()) {
    for (const Json& member : value) bytes += TextBytes(member);
  }
  return bytes;
}

}  // namespace

Template::Template(Body body, size_t source_bytes)
    : body_(std::make_shared<const Body>(std::move(body))), source_bytes_(source_bytes) {}

Result<Template> Template::Create(std::string_view source) {
  MOORING_ASSIGN_OR_RETURN(Body body, Parse(source));
  return Template(std::move(body), source.size());
}

Result<std::string> Template::Render(const Json& variables, const Budget& budget) const {
  const size_t input_bytes = source_bytes_ + TextBytes(variables);
  return Interpreter(budget, 4 * input_bytes + budget.output_bytes).Run(*body_, variables);
}

}  // namespace mooring::jinja
