// Every field of a request that is known, and what becomes of it: one table, from which checks,
// errors and a test of wrong values are made. A field that is not in it is refused like one that
// is refused by name, so that no wish is ever dropped in silence.
//
// Thread rule: constants and pure functions.
#ifndef MOORING_SERVE_FIELD_TABLE_H_
#define MOORING_SERVE_FIELD_TABLE_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>

#include "serve/api_error.h"

namespace mooring {

enum class FieldUse : uint8_t {
  kServed,
  kIgnored,    // taken and without effect, whatever its value
  kIfDefault,  // only with the value that asks for nothing; see Field::low for numbers
  kRefused,    // not in this build
};

enum class FieldType : uint8_t {
  kAny,
  kBool,
  kInteger,
  kNumber,
  kText,
  kTextOrTexts,   // one or a list of them
  kTextOrObject,  // a name, or an object with an id
  kObject,
  kList,
  kTextOrList,
};

// The routes whose bodies are checked.
enum Dialect : uint8_t { kChat = 1, kCompletion = 2, kResponse = 4 };

struct Field {
  std::string_view name;
  uint8_t dialects = kChat;
  FieldUse use = FieldUse::kServed;
  FieldType type = FieldType::kAny;
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false;  // the end itself is out
  bool high_open = false;
};

std::span<const Field> Fields();
const Field* FindField(std::string_view name, Dialect dialect);

// What is wrong with a body, if something is: the first field that is not known, refused, or has
// the wrong type or size. A null stands for a field that is not there.
std::optional<ApiError> CheckFields(const nlohmann::ordered_json& body, Dialect dialect);

}  // namespace mooring

#endif  // MOORING_SERVE_FIELD_TABLE_H_
