// Parses a chat template. Whatever the interpreter cannot do is found here, when a model is loaded,
// and named with its line; rendering meets only faults of values and budgets.
//
// Thread rule: pure.
#ifndef MOORING_TEXT_JINJA_PARSER_H_
#define MOORING_TEXT_JINJA_PARSER_H_

#include <string_view>

#include "base/result.h"
#include "text/jinja_ast.h"

namespace mooring::jinja {

// Nesting of blocks, and of brackets, beyond which a template is refused.
inline constexpr int kMaxNesting = 64;
// Depth of an expression's tree: a chain of one operator deepens it without nesting.
inline constexpr int kMaxTreeDepth = 256;

Result<Body> Parse(std::string_view source);

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_PARSER_H_
