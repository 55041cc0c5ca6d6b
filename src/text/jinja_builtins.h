// What templates may call: filters, tests, methods of values and global functions, each by name.
//
// Names are known before any call, so that the parser can refuse a template that needs more. The
// calls are pure, throw nothing and build no string or list beyond `limit`.
//
// Thread rule: pure functions.
#ifndef MOORING_TEXT_JINJA_BUILTINS_H_
#define MOORING_TEXT_JINJA_BUILTINS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "text/jinja_value.h"

namespace mooring::jinja {

inline constexpr int64_t kMaxRange = 64 * 1024;

struct Call {
  std::string_view name = {};
  Value input = {};  // what the filter, test or method is applied to; none for functions
  std::vector<Value> args = {};
  std::vector<std::pair<std::string, Value>> keywords = {};
  size_t limit = 0;  // bytes of a string, members of a list

  // The argument at `index` or called `keyword`, or nullptr.
  const Value* Arg(size_t index, std::string_view keyword) const;
};

using Function = Result<Value> (*)(const Call&);

enum class CallKind { kFilter, kTest, kMethod, kFunction };

bool IsKnown(CallKind kind, std::string_view name);

// REQUIRES: IsKnown(kind, call.name). An error of kind kUsage is the template's own refusal.
Result<Value> Apply(CallKind kind, const Call& call);

}  // namespace mooring::jinja

#endif  // MOORING_TEXT_JINJA_BUILTINS_H_
