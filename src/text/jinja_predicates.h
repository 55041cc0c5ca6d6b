// What templates may ask of a value: the tests behind `is`, each by name.
//
// Thread rule: pure functions.
#ifndef MOORING_TEXT_JINJA_PREDICATES_H_
#define MOORING_TEXT_JINJA_PREDICATES_H_

#include <string_view>

#include "text/jinja_builtins.h"

namespace mooring::jinja {

// Null when there is no test of that name.
Function FindTest(std::string_view name);

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_PREDICATES_H_
