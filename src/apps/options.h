// The table of options: each setting declared once, with its key, flag, limits and help. Flags,
// environment names, keys of the configuration file, `config show`, the example file and help are
// all made from it. A new option is a field in settings.h and a row in options.cc.
//
// Invariants: the default of an option is what settings.h says; keys and flags are unique; an
// option can be set to nothing but a value within its limits, wherever the value comes from.
//
// Thread rule: constants and pure functions.
#ifndef MOORING_APPS_OPTIONS_H_
#define MOORING_APPS_OPTIONS_H_

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "apps/settings.h"
#include "base/result.h"

namespace mooring {

// Which commands take the option's flag.
enum class OptionGroup : uint8_t {
  kEvery,      // in front of every command
  kModelFile,  // those that read a model, if only its tokenizer or template
  kModel,      // those that load a model
  kSampling,   // those that generate
  kServer,     // the one that serves
};

// Where the value of an option lies; the kind of the field is the type of the option.
using OptionField =
    std::variant<bool& (*)(Settings&), int64_t& (*)(Settings&),
                 std::optional<int64_t>& (*)(Settings&), double& (*)(Settings&),
                 std::string& (*)(Settings&), std::vector<std::string>& (*)(Settings&)>;

struct IntegerLimits {
  int64_t low = 0;
  int64_t high = std::numeric_limits<int64_t>::max();
};

struct RealLimits {
  double low = 0.0;
  double high = 0.0;
  bool low_open = false;  // the end itself is out
  bool high_open = false;
};

// What a text must look like.
enum class TextRule : uint8_t { kNotEmpty, kSha256OrEmpty };

struct Option {
  std::string_view key;                     // as in the file: "memory.policy"
  std::string_view flag = {};               // without dashes; empty: no flag
  OptionGroup group = OptionGroup::kModel;  // of the flag
  std::string_view value_name = {};         // as help calls the value: "N"
  std::string_view unset = {};              // the word for "no value": "auto", "null"
  std::span<const std::string_view> choices = {};
  std::span<const std::string_view> later_choices = {};  // known, but not in this build
  IntegerLimits integers = {};
  RealLimits reals = {};
  TextRule text_rule = TextRule::kNotEmpty;
  OptionField field;
  std::string_view help;  // one line, no final stop
};

std::span<const Option> Options();
// Null when there is none.
const Option* FindOption(std::string_view key);
const Option* FindOptionByFlag(std::string_view flag);

// MOORING_ and the key in upper case, with two underscores for each dot.
std::string EnvironmentName(std::string_view key);

bool IsSwitch(const Option& option);
bool IsList(const Option& option);

// A value as someone wrote it.
struct RawValue {
  enum class Kind : uint8_t { kText, kNull, kList, kMap };
  Kind kind = Kind::kText;
  std::vector<std::string> items = {};  // one for kText

  static RawValue Text(std::string text) { return {Kind::kText, {std::move(text)}}; }
};

// Who gave a value, for messages, and the kind of error that a bad one is.
struct ValueOrigin {
  std::string where;  // "--policy", "config.yaml:3"
  ErrorKind kind = ErrorKind::kConfig;
};

// Sets the option in `settings`, which is as it was after an error.
Status SetOption(const Option& option, const RawValue& value, const ValueOrigin& origin,
                 Settings* settings);

// The value as the file would spell it, on one line.
std::string ValueText(const Option& option, const Settings& settings);
std::string DefaultText(const Option& option);
// What a value must be: "a whole number from 1 to 1024, or auto".
std::string ExpectedText(const Option& option);

// Keys and flags of later stages: known, so that they are refused by name and never ignored.
bool IsLaterKey(std::string_view key);
std::span<const std::string_view> LaterFlags();
std::span<const std::string_view> LaterCommands();
Error NotInThisBuild(std::string_view thing, std::string where, ErrorKind kind);

// True for "memory" and "sampling": what stands before the dot of some key.
bool IsKeyGroup(std::string_view key);
// kConfig for a key that is not in the table: of a later stage, a group, or unknown (with the
// nearest known key).
Error BadKey(std::string_view key, std::string where);

}  // namespace mooring

#endif  // MOORING_APPS_OPTIONS_H_
