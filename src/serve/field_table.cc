#include "serve/field_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "serve/json_body.h"

namespace mooring {
namespace {

using enum FieldUse;
using enum FieldType;

constexpr uint8_t kAll = kChat | kCompletion | kResponse;
constexpr double kMostTokens = 1e9;
constexpr double kMostSeed = 9223372036854774784.0;  // the last double below 2^63

constexpr std::array kFields = {
    Field{.name = "model", .dialects = kAll, .type = kText},
    Field{.name = "messages", .dialects = kChat, .type = kList},
    Field{.name = "prompt", .dialects = kCompletion, .type = kText},
    Field{.name = "input", .dialects = kResponse, .type = kTextOrList},
    Field{.name = "instructions", .dialects = kResponse, .type = kText},
    Field{.name = "stream", .dialects = kAll, .type = kBool},
    Field{.name = "stream_options", .dialects = kChat | kCompletion, .type = kObject},
    Field{.name = "max_tokens",
          .dialects = kChat | kCompletion,
          .type = kInteger,
          .low = 1,
          .high = kMostTokens},
    Field{.name = "max_completion_tokens",
          .dialects = kChat,
          .type = kInteger,
          .low = 1,
          .high = kMostTokens},
    Field{.name = "max_output_tokens",
          .dialects = kResponse,
          .type = kInteger,
          .low = 1,
          .high = kMostTokens},
    Field{.name = "temperature", .dialects = kAll, .type = kNumber, .low = 0, .high = 5},
    Field{
        .name = "top_p", .dialects = kAll, .type = kNumber, .low = 0, .high = 1, .low_open = true},
    Field{.name = "top_k", .dialects = kAll, .type = kInteger, .low = 0, .high = 1 << 30},
    Field{
        .name = "min_p", .dialects = kAll, .type = kNumber, .low = 0, .high = 1, .high_open = true},
    Field{.name = "repeat_penalty", .dialects = kAll, .type = kNumber, .low = 0.01, .high = 100},
    Field{.name = "presence_penalty", .dialects = kAll, .type = kNumber, .low = -2, .high = 2},
    Field{.name = "seed", .dialects = kAll, .type = kInteger, .low = -kMostSeed, .high = kMostSeed},
    Field{.name = "stop", .dialects = kChat | kCompletion, .type = kTextOrTexts},
    Field{.name = "store", .dialects = kChat | kResponse, .type = kBool},
    Field{.name = "conversation", .dialects = kChat | kResponse, .type = kTextOrObject},
    Field{.name = "previous_response_id", .dialects = kResponse, .type = kText},
    Field{.name = "if_turn",
          .dialects = kChat | kResponse,
          .type = kInteger,
          .low = 0,
          .high = kMostTokens},
    // Known, with one value that asks for nothing.
    Field{.name = "n",
          .dialects = kChat | kCompletion,
          .use = kIfDefault,
          .type = kInteger,
          .low = 1,
          .high = 1},
    Field{.name = "frequency_penalty",
          .dialects = kChat | kCompletion,
          .use = kIfDefault,
          .type = kNumber,
          .low = 0,
          .high = 0},
    Field{.name = "logprobs", .dialects = kChat, .use = kIfDefault, .type = kBool},
    Field{.name = "background", .dialects = kChat | kResponse, .use = kIfDefault, .type = kBool},
    Field{.name = "echo", .dialects = kCompletion, .use = kIfDefault, .type = kBool},
    Field{.name = "best_of",
          .dialects = kCompletion,
          .use = kIfDefault,
          .type = kInteger,
          .low = 1,
          .high = 1},
    Field{.name = "parallel_tool_calls", .dialects = kChat | kResponse, .use = kIgnored},
    Field{.name = "tools", .dialects = kChat | kResponse, .use = kRefused},
    Field{.name = "tool_choice", .dialects = kChat | kResponse, .use = kRefused},
    Field{.name = "functions", .dialects = kChat, .use = kRefused},
    Field{.name = "function_call", .dialects = kChat, .use = kRefused},
    Field{.name = "response_format", .dialects = kChat, .use = kRefused},
    Field{.name = "logit_bias", .dialects = kChat | kCompletion, .use = kRefused},
    Field{.name = "top_logprobs", .dialects = kChat | kResponse, .use = kRefused},
    Field{.name = "suffix", .dialects = kCompletion, .use = kRefused},
    Field{.name = "audio", .dialects = kChat, .use = kRefused},
    Field{.name = "modalities", .dialects = kChat, .use = kRefused},
    Field{.name = "memory", .dialects = kChat | kResponse, .use = kRefused},
    Field{.name = "include", .dialects = kResponse, .use = kIgnored},
    Field{.name = "truncation", .dialects = kResponse, .use = kIgnored},
    Field{.name = "reasoning", .dialects = kResponse, .use = kIgnored},
    Field{.name = "reasoning_effort", .dialects = kChat, .use = kIgnored},
    Field{.name = "text", .dialects = kResponse, .use = kIgnored},
    Field{.name = "prediction", .dialects = kChat, .use = kIgnored},
    Field{.name = "user", .dialects = kAll, .use = kIgnored},
    Field{.name = "metadata", .dialects = kAll, .use = kIgnored},
    Field{.name = "service_tier", .dialects = kAll, .use = kIgnored},
    Field{.name = "prompt_cache_key", .dialects = kAll, .use = kIgnored},
    Field{.name = "prompt_cache_retention", .dialects = kAll, .use = kIgnored},
    Field{.name = "safety_identifier", .dialects = kAll, .use = kIgnored},
    Field{.name = "verbosity", .dialects = kAll, .use = kIgnored},
};

bool HasType(const Json& value, FieldType type) {
  switch (type) {
    case kAny:
      return true;
    case kBool:
      return value.is_boolean();
    case kInteger:
      return value.is_number_integer();
    case kNumber:
      return value.is_number();
    case kText:
      return value.is_string();
    case kTextOrTexts:
      return value.is_string() ||
             (value.is_array() &&
              std::ranges::all_of(value, [](const Json& item) { return item.is_string(); }));
    case kTextOrObject:
      return value.is_string() || value.is_object();
    case kObject:
      return value.is_object();
    case kList:
      return value.is_array();
    case kTextOrList:
      return value.is_string() || value.is_array();
  }
  return false;
}

std::string ExpectedText(const Field& field) {
  switch (field.type) {
    case kBool:
      return field.use == kIfDefault ? "false" : "true or false";
    case kInteger:
    case kNumber:
      return fmt::format("a{} number from {} to {}{}", field.type == kInteger ? " whole" : "",
                         field.low, field.high,
                         field.low_open || field.high_open ? ", ends apart" : "");
    case kText:
      return "text";
    case kTextOrTexts:
      return "text, or a list of texts";
    case kTextOrObject:
      return "text, or an object with an id";
    case kObject:
      return "an object";
    case kList:
      return "a list";
    case kTextOrList:
      return "text, or a list";
    case kAny:
      break;
  }
  return "anything";
}

bool IsInRange(const Field& field, const Json& value) {
  if (field.use == kIfDefault && field.type == kBool) return !value.get<bool>();
  if (field.type != kInteger && field.type != kNumber) return true;
  const auto number = value.get<double>();
  return number >= field.low && number <= field.high && !(field.low_open && number == field.low) &&
         !(field.high_open && number == field.high);
}

}  // namespace

std::span<const Field> Fields() { return kFields; }

const Field* FindField(std::string_view name, Dialect dialect) {
  const auto found = std::ranges::find_if(kFields, [&](const Field& field) {
    return field.name == name && (field.dialects & dialect) != 0;
  });
  return found == kFields.end() ? nullptr : &*found;
}

std::optional<ApiError> CheckFields(const Json& body, Dialect dialect) {
  for (const auto& [name, value] : body.items()) {
    const Field* field = FindField(name, dialect);
    if (field == nullptr || (field->use == kRefused && !value.is_null())) {
      return ApiError{400, "unsupported_parameter",
                      fmt::format("the field '{}' is {}; leave it out", name.substr(0, 64),
                                  field == nullptr ? "not known here" : "not in this build yet"),
                      name.substr(0, 64)};
    }
    if (value.is_null() || field->use == kIgnored) continue;
    if (!HasType(value, field->type) || !IsInRange(*field, value)) {
      const std::string found = Dump(value);
      return ApiError{
          400, field->use == kIfDefault ? "unsupported_parameter" : "invalid_value",
          fmt::format("bad value for '{}': expected {}, found {}", name, ExpectedText(*field),
                      found.size() > 80 ? "something longer" : found),
          name};
    }
  }
  return std::nullopt;
}

}  // namespace mooring
