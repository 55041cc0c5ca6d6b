#include "apps/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <type_traits>
#include <utility>

#include "engine/turn.h"
#include "load/model_store.h"
#include "load/quote.h"
#include "load/sha256.h"

namespace mooring {
namespace {

constexpr std::array<std::string_view, 31> kLaterKeys = {
    "model.mmap", "memory.key_tokens", "memory.topic_anchors", "memory.pinned", "memory.pool_bytes",
    "memory.index_ram", "memory.archive.disk_bytes", "server.cors_origins", "server.max_streams",
    "server.idle_timeout", "server.keepalive_comment", "server.resume_buffer.bytes",
    "server.resume_buffer.keep", "conversations.id_headers", "conversations.import_tokens",
    "conversations.durable", "conversations.idle_to_disk", "conversations.ttl",
    "limits.max_output_tokens", "limits.messages", "limits.n", "limits.stop", "limits.stop_bytes",
    "limits.top_logprobs", "log.format", "log.prompts", "metrics.enabled", "metrics.listen",
    // Whole groups, for files that give them no value.
    "server.resume_buffer", "limits", "metrics"};

constexpr std::array<std::string_view, 6> kLaterFlags = {
    "no-pack-cache", "max-conversations", "revision", "server", "plot", "man"};
constexpr std::array<std::string_view, 1> kLaterCommands = {"completion"};

// Reads the whole of `text` as a T.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool Contains(std::span<const std::string_view> words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::string FoundText(const RawValue& value) {
  switch (value.kind) {
    case RawValue::Kind::kNull:
      return "null";
    case RawValue::Kind::kMap:
      return "a map";
    case RawValue::Kind::kList:
      return "a list";
    case RawValue::Kind::kText:
      break;
  }
  return value.items[0].empty() ? "nothing" : QuoteBytes(value.items[0]);
}

// One text into one field: false when it is not what the option takes.
bool Assign(const Option& option, const std::string& text, bool* field) {
  const bool yes = text == "true" || text == "yes" || text == "on" || text == "1";
  const bool no = text == "false" || text == "no" || text == "off" || text == "0";
  if (yes || no) *field = yes;
  return (yes || no) && option.choices.empty();
}

bool Assign(const Option& option, const std::string& text, int64_t* field) {
  const auto number = ParseNumber<int64_t>(text);
  if (!number || *number < option.integers.low || *number > option.integers.high) return false;
  *field = *number;
  return true;
}

bool Assign(const Option& option, const std::string& text, std::optional<int64_t>* field) {
  int64_t number = 0;
  if (!Assign(option, text, &number)) return false;
  *field = number;
  return true;
}

bool Assign(const Option& option, const std::string& text, double* field) {
  const auto number = ParseNumber<double>(text);
  if (!number || !std::isfinite(*number)) return false;
  const RealLimits& limits = option.reals;
  if (*number < limits.low || (limits.low_open && *number == limits.low)) return false;
  if (*number > limits.high || (limits.high_open && *number == limits.high)) return false;
  *field = *number;
  return true;
}

bool Assign(const Option& option, const std::string& text, std::string* field) {
  if (!option.choices.empty() && !Contains(option.choices, text)) return false;
  if (option.text_rule == TextRule::kSha256OrEmpty) {
    if (!text.empty() && !IsSha256(text)) return false;
  } else if (text.empty() || text.find('\0') != std::string::npos) {
    return false;
  }
  *field = text;
  return true;
}

bool IsStopString(const std::string& text) { return !text.empty() && text.size() <= kMaxStopBytes; }

bool Assign(const Option& /*option*/, const std::string& text, std::vector<std::string>* field) {
  if (!IsStopString(text)) return false;
  *field = {text};
  return true;
}

// Puts the option back to "no value"; false when it has no such state.
bool Unset(const Option& option, Settings* settings) {
  if (option.unset.empty()) return false;
  Settings defaults;
  return std::visit(
      [&](auto field) {
        field(*settings) = field(defaults);
        return true;
      },
      option.field);
}

bool AssignList(const Option& option, const std::vector<std::string>& items, Settings* settings) {
  auto* const* field = std::get_if<std::vector<std::string>& (*)(Settings&)>(&option.field);
  if (field == nullptr || items.size() > kMaxStopStrings) return false;
  if (!std::ranges::all_of(items, IsStopString)) return false;
  (*field)(*settings) = items;
  return true;
}

bool AssignValue(const Option& option, const RawValue& value, Settings* settings) {
  switch (value.kind) {
    case RawValue::Kind::kNull:
      return IsList(option) ? AssignList(option, {}, settings) : Unset(option, settings);
    case RawValue::Kind::kMap:
      return false;
    case RawValue::Kind::kList:
      return AssignList(option, value.items, settings);
    case RawValue::Kind::kText:
      break;
  }
  const std::string& text = value.items[0];
  if (!option.unset.empty() && (text == "auto" || text == "null")) return Unset(option, settings);
  return std::visit(
      [&](auto field) {
        // Into a copy, so that a bad value leaves the old one.
        auto copy = field(*settings);
        if (!Assign(option, text, &copy)) return false;
        field(*settings) = std::move(copy);
        return true;
      },
      option.field);
}

// A text as a YAML scalar: quoted where plain would mean something else.
std::string YamlText(const std::string& text) {
  const auto plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-' || c == '/' || c == '+' ||
           c == ':';
  };
  if (!text.empty() && text.back() != ':' &&
      std::isalnum(static_cast<unsigned char>(text[0])) != 0 && std::ranges::all_of(text, plain)) {
    return text;
  }
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string TextOf(const Option& /*option*/, bool value) { return value ? "true" : "false"; }
std::string TextOf(const Option& /*option*/, int64_t value) { return fmt::format("{}", value); }
std::string TextOf(const Option& option, const std::optional<int64_t>& value) {
  return value ? fmt::format("{}", *value) : std::string(option.unset);
}
std::string TextOf(const Option& /*option*/, double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}
std::string TextOf(const Option& option, const std::string& value) {
  return value.empty() && !option.unset.empty() ? std::string(option.unset) : YamlText(value);
}
std::string TextOf(const Option& /*option*/, const std::vector<std::string>& values) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const std::string& value : values) texts.push_back(YamlText(value));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string ExpectedNumber(const Option& option, const int64_t* /*type*/) {
  if (option.integers.high == std::numeric_limits<int64_t>::max()) {
    return fmt::format("a whole number from {}", option.integers.low);
  }
  return fmt::format("a whole number from {} to {}", option.integers.low, option.integers.high);
}
std::string ExpectedNumber(const Option& option, const double* /*type*/) {
  const RealLimits& limits = option.reals;
  return fmt::format("a number {} {} {} {}", limits.low_open ? "above" : "from", limits.low,
                     limits.high_open ? "to below" : "to", limits.high);
}

}  // namespace

const Option* FindOption(std::string_view key) {
  const auto it = std::ranges::find(Options(), key, &Option::key);
  return it == Options().end() ? nullptr : &*it;
}

const Option* FindOptionByFlag(std::string_view flag) {
  if (flag.empty()) return nullptr;
  const auto it = std::ranges::find(Options(), flag, &Option::flag);
  return it == Options().end() ? nullptr : &*it;
}

std::string EnvironmentName(std::string_view key) {
  std::string name = "MOORING_";
  for (const char c : key) {
    if (c == '.') {
      name += "__";
    } else {
      name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
  }
  return name;
}

bool IsSwitch(const Option& option) {
  return std::holds_alternative<bool& (*)(Settings&)>(option.field);
}

bool IsList(const Option& option) {
  return std::holds_alternative<std::vector<std::string>& (*)(Settings&)>(option.field);
}

Status SetOption(const Option& option, const RawValue& value, const ValueOrigin& origin,
                 Settings* settings) {
  if (AssignValue(option, value, settings)) return {};
  const bool later =
      value.kind == RawValue::Kind::kText && Contains(option.later_choices, value.items[0]);
  if (later) {
    return NotInThisBuild(fmt::format("{} {}", option.key, value.items[0]), origin.where,
                          origin.kind);
  }
  Error error = {.kind = origin.kind,
                 .what = fmt::format("bad value for {}", option.key),
                 .where = origin.where,
                 .expected = ExpectedText(option),
                 .found = FoundText(value)};
  if (value.kind == RawValue::Kind::kText && !option.choices.empty()) {
    const std::vector<std::string> choices(option.choices.begin(), option.choices.end());
    const std::string nearest = NearestName(value.items[0], choices);
    if (!nearest.empty()) error.remedy = fmt::format("did you mean {}?", nearest);
  }
  return error;
}

std::string ValueText(const Option& option, const Settings& settings) {
  Settings copy = settings;
  return std::visit([&](auto field) { return TextOf(option, field(copy)); }, option.field);
}

std::string DefaultText(const Option& option) { return ValueText(option, Settings()); }

std::string ExpectedText(const Option& option) {
  std::string text;
  if (!option.choices.empty()) {
    text = fmt::format("one of {}", fmt::join(option.choices, ", "));
  } else {
    text = std::visit(
        [&](auto field) -> std::string {
          using Field = std::remove_reference_t<decltype(field(std::declval<Settings&>()))>;
          if constexpr (std::is_same_v<Field, bool>) return "true or false";
          if constexpr (std::is_same_v<Field, int64_t>) {
            return ExpectedNumber(option, static_cast<int64_t*>(nullptr));
          }
          if constexpr (std::is_same_v<Field, std::optional<int64_t>>) {
            return ExpectedNumber(option, static_cast<int64_t*>(nullptr));
          }
          if constexpr (std::is_same_v<Field, double>) {
            return ExpectedNumber(option, static_cast<double*>(nullptr));
          }
          if constexpr (std::is_same_v<Field, std::string>) {
            return option.text_rule == TextRule::kSha256OrEmpty ? "64 hexadecimal digits"
                                                                : "a text";
          }
          return fmt::format("at most {} texts of 1 to {} bytes", kMaxStopStrings, kMaxStopBytes);
        },
        option.field);
  }
  if (!option.unset.empty()) text += fmt::format(", or {}", option.unset);
  return text;
}

bool IsLaterKey(std::string_view key) { return Contains(kLaterKeys, key); }
std::span<const std::string_view> LaterFlags() { return kLaterFlags; }
std::span<const std::string_view> LaterCommands() { return kLaterCommands; }

Error NotInThisBuild(std::string_view thing, std::string where, ErrorKind kind) {
  return {.kind = kind,
          .what = fmt::format("{} is known, but this build does not have it yet", thing),
          .where = std::move(where),
          .remedy = "leave it out"};
}

bool IsKeyGroup(std::string_view key) {
  return std::ranges::any_of(Options(), [key](const Option& option) {
    return option.key.size() > key.size() && option.key.starts_with(key) &&
           option.key[key.size()] == '.';
  });
}

Error BadKey(std::string_view key, std::string where) {
  if (IsLaterKey(key)) return NotInThisBuild(key, std::move(where), ErrorKind::kConfig);
  if (IsKeyGroup(key)) {
    return {.kind = ErrorKind::kConfig,
            .what = fmt::format("{} is a group of keys", key),
            .where = std::move(where),
            .expected = "a map of its keys"};
  }
  std::vector<std::string> known(kLaterKeys.begin(), kLaterKeys.end());
  for (const Option& option : Options()) known.emplace_back(option.key);
  Error error = {.kind = ErrorKind::kConfig,
                 .what = fmt::format("unknown key {}", QuoteBytes(key)),
                 .where = std::move(where)};
  const std::string nearest = NearestName(key, known);
  error.remedy = nearest.empty() ? "`mooring config show` lists the keys"
                                 : fmt::format("did you mean {}?", nearest);
  return error;
}

}  // namespace mooring
