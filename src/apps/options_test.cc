#include "apps/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "memory/policy.h"

namespace mooring {
namespace {

using testing::HasSubstr;

const ValueOrigin kHere = {"here", ErrorKind::kConfig};

Status Set(const Option& option, const std::string& text, Settings* settings) {
  return SetOption(option, RawValue::Text(text), kHere, settings);
}

bool IsReal(const Option& option) {
  return std::holds_alternative<double& (*)(Settings&)>(option.field);
}
bool IsInteger(const Option& option) {
  return std::holds_alternative<int64_t& (*)(Settings&)>(option.field) ||
         std::holds_alternative<std::optional<int64_t>& (*)(Settings&)>(option.field);
}

// Texts that the option must refuse, made from its row.
std::vector<std::string> BadTexts(const Option& option) {
  if (IsReal(option)) {
    return {"", "nan", "inf", "-inf", "1e999", "x", "1 ", "0x1", "1,5", "-1000", "1000"};
  }
  if (IsInteger(option)) {
    std::vector<std::string> bad = {"",
                                    "x",
                                    "1.5",
                                    "1e3",
                                    "0x10",
                                    " 1",
                                    "9223372036854775808",
                                    "-9223372036854775809",
                                    "nan",
                                    std::to_string(option.integers.low - 1)};
    if (option.integers.high != std::numeric_limits<int64_t>::max()) {
      bad.push_back(std::to_string(option.integers.high + 1));
    }
    return bad;
  }
  if (IsSwitch(option)) return {"", "2", "maybe", "TRUE!"};
  if (IsList(option)) return {"", std::string(257, 'x')};
  if (!option.choices.empty()) return {"", "nothing", "AUTO", std::string(option.choices[0]) + " "};
  if (option.text_rule == TextRule::kSha256OrEmpty) return {"abc", std::string(64, 'g')};
  return {"", std::string("a\0b", 3)};
}

// A text that it takes and that is not its default.
std::string GoodText(const Option& option) {
  if (IsReal(option)) return fmt::format("{}", std::max(option.reals.low, 0.0) + 0.25);
  if (IsInteger(option)) return std::to_string(option.integers.low + 9);
  if (IsSwitch(option)) return "true";
  if (!option.choices.empty()) return std::string(option.choices.back());
  if (option.text_rule == TextRule::kSha256OrEmpty) return std::string(64, 'a');
  return "some-text";
}

TEST(OptionsTest, KeysAndFlagsAreUniqueAndWellFormed) {
  std::set<std::string_view> keys;
  std::set<std::string_view> flags;
  for (const Option& option : Options()) {
    EXPECT_TRUE(keys.insert(option.key).second) << option.key;
    EXPECT_EQ(option.key.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_."),
              std::string_view::npos);
    if (!option.flag.empty()) {
      EXPECT_TRUE(flags.insert(option.flag).second) << option.flag;
      EXPECT_EQ(option.value_name.empty(), IsSwitch(option)) << option.key;
    }
    EXPECT_FALSE(option.help.empty()) << option.key;
    EXPECT_FALSE(option.help.ends_with('.')) << option.key;
    EXPECT_FALSE(IsLaterKey(option.key)) << option.key;
    EXPECT_EQ(FindOption(option.key), &option);
  }
}

TEST(OptionsTest, DefaultsAreWithinTheLimits) {
  for (const Option& option : Options()) {
    const std::string text = DefaultText(option);
    if (text == "[]") continue;
    Settings settings;
    // A text that a file must quote is quoted.
    const bool quoted = text.starts_with('"');
    const Status status = Set(option, quoted ? text.substr(1, text.size() - 2) : text, &settings);
    EXPECT_TRUE(status.ok()) << option.key << ": " << (status.ok() ? "" : status.error().Message());
    EXPECT_EQ(ValueText(option, settings), text) << option.key;
  }
}

TEST(OptionsTest, EveryOptionTakesAGoodValue) {
  for (const Option& option : Options()) {
    Settings settings;
    const std::string good = GoodText(option);
    ASSERT_TRUE(Set(option, good, &settings).ok()) << option.key << " " << good;
    EXPECT_THAT(ValueText(option, settings), HasSubstr(good)) << option.key;
  }
}

TEST(OptionsTest, EveryOptionRefusesBadValuesAndKeepsTheOld) {
  for (const Option& option : Options()) {
    for (const std::string& bad : BadTexts(option)) {
      if (bad.empty() && option.text_rule == TextRule::kSha256OrEmpty) continue;
      Settings settings;
      ASSERT_TRUE(Set(option, GoodText(option), &settings).ok());
      const std::string before = ValueText(option, settings);
      const Status status = Set(option, bad, &settings);
      ASSERT_FALSE(status.ok()) << option.key << " took '" << bad << "'";
      EXPECT_EQ(status.error().kind, ErrorKind::kConfig);
      EXPECT_THAT(status.error().Message(), HasSubstr(std::string(option.key)));
      EXPECT_THAT(status.error().Message(), HasSubstr("here"));
      EXPECT_EQ(ValueText(option, settings), before) << option.key;
    }
    Settings settings;
    EXPECT_FALSE(SetOption(option, {RawValue::Kind::kMap, {}}, kHere, &settings).ok());
    if (IsList(option)) continue;
    EXPECT_FALSE(SetOption(option, {RawValue::Kind::kList, {"a"}}, kHere, &settings).ok());
    EXPECT_EQ(SetOption(option, {RawValue::Kind::kNull, {}}, kHere, &settings).ok(),
              !option.unset.empty())
        << option.key;
  }
}

TEST(OptionsTest, OpenEndsAreOut) {
  Settings settings;
  EXPECT_FALSE(Set(*FindOption("sampling.top_p"), "0", &settings).ok());
  EXPECT_TRUE(Set(*FindOption("sampling.top_p"), "1", &settings).ok());
  EXPECT_TRUE(Set(*FindOption("sampling.min_p"), "0", &settings).ok());
  EXPECT_FALSE(Set(*FindOption("sampling.min_p"), "1", &settings).ok());
}

TEST(OptionsTest, ListsHaveLimits) {
  const Option& stop = *FindOption("sampling.stop");
  Settings settings;
  const RawValue sixteen = {RawValue::Kind::kList, std::vector<std::string>(16, "x")};
  const RawValue seventeen = {RawValue::Kind::kList, std::vector<std::string>(17, "x")};
  EXPECT_TRUE(SetOption(stop, sixteen, kHere, &settings).ok());
  EXPECT_FALSE(SetOption(stop, seventeen, kHere, &settings).ok());
  EXPECT_EQ(settings.sampling.stop.size(), 16U);
}

TEST(OptionsTest, PoliciesOfTheTableAreThoseOfTheRoom) {
  const Option& policy = *FindOption("memory.policy");
  for (const PolicyEntry& entry : Policies()) {
    Settings settings;
    EXPECT_TRUE(Set(policy, std::string(entry.name), &settings).ok()) << entry.name;
  }
  EXPECT_EQ(policy.choices.size(), Policies().size());
}

TEST(OptionsTest, LaterChoicesAreRefusedByName) {
  Settings settings;
  const Status status = Set(*FindOption("memory.policy"), "keys", &settings);
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.error().Message(), HasSubstr("this build does not have it yet"));
}

TEST(OptionsTest, NearMissesAreNamed) {
  EXPECT_THAT(BadKey("memory.polic", "f:1").Message(), HasSubstr("did you mean memory.policy?"));
  EXPECT_THAT(BadKey("windowsize", "f:1").Message(), HasSubstr("did you mean window_size?"));
  EXPECT_THAT(BadKey("server.cors_origins", "f:1").Message(), HasSubstr("does not have it yet"));
  EXPECT_THAT(BadKey("sampling", "f:1").Message(), HasSubstr("group"));
  EXPECT_THAT(BadKey("zzzzzzzzzzzz", "f:1").Message(), HasSubstr("config show"));
  Settings settings;
  EXPECT_THAT(Set(*FindOption("precision"), "fp166", &settings).error().Message(),
              HasSubstr("did you mean fp16?"));
}

TEST(OptionsTest, EnvironmentNames) {
  EXPECT_EQ(EnvironmentName("memory.key_value"), "MOORING_MEMORY__KEY_VALUE");
  EXPECT_EQ(EnvironmentName("isa"), "MOORING_ISA");
}

// The flags of the design's registry that are built.
TEST(OptionsTest, EveryFlagOfTheRegistryIsThere) {
  for (const std::string_view flag :
       {"model", "window", "force-window", "policy", "anchors", "threads", "isa", "precision", "kv",
        "template", "temperature", "top-p", "top-k", "min-p", "seed", "max-tokens", "log-level"}) {
    EXPECT_NE(FindOptionByFlag(flag), nullptr) << flag;
  }
}

}  // namespace
}  // namespace mooring
