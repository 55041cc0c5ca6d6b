#include "apps/flag_values.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace mooring {
namespace {

Result<int64_t> ParseInteger(std::string_view flag, const std::string& text, int64_t low,
                             int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= low && value <= high) {
    return value;
  }
  return Error{.kind = ErrorKind::kUsage,
               .what = "not a number that this flag takes",
               .where = fmt::format("--{}", flag),
               .expected = fmt::format("a whole number from {} to {}", low, high),
               .found = text};
}

}  // namespace

Result<int64_t> IntegerFlag(const CommandContext& context, std::string_view flag, int64_t fallback,
                            int64_t low, int64_t high) {
  if (!context.Has(flag)) return fallback;
  return ParseInteger(flag, context.Flag(flag, ""), low, high);
}

std::vector<std::string> WordsFlag(const CommandContext& context, std::string_view flag) {
  std::vector<std::string> words;
  if (!context.Has(flag)) return words;
  words.emplace_back();
  for (const char c : context.Flag(flag, "")) {
    if (c == ',') {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

Result<std::vector<int64_t>> IntegersFlag(const CommandContext& context, std::string_view flag,
                                          std::vector<int64_t> fallback, int64_t low,
                                          int64_t high) {
  if (!context.Has(flag)) return fallback;
  std::vector<int64_t> values;
  for (const std::string& word : WordsFlag(context, flag)) {
    MOORING_ASSIGN_OR_RETURN(const int64_t value, ParseInteger(flag, word, low, high));
    values.push_back(value);
  }
  return values;
}

}  // namespace mooring
