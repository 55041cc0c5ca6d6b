#include "apps/config.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "apps/runtime.h"
#include "apps/yaml_file.h"
#include "base/files.h"

namespace mooring {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

class ConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "mooring-config-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& text, const std::string& name = "config.yaml") {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path.string();
  }
  Result<Config> Load(const std::string& text) {
    return LoadConfig({.config_flag = File(text), .system_file = ""});
  }
  std::string Fault(const std::string& text) {
    const auto config = Load(text);
    if (config.ok()) return "none";
    EXPECT_EQ(config.error().kind, ErrorKind::kConfig);
    return config.error().Message();
  }
  static std::string OriginOf(const Config& config, std::string_view key) {
    return config.origins[static_cast<size_t>(FindOption(key) - Options().data())];
  }

  std::filesystem::path folder_;
};

// A value of the option's type that is not its default, and a second one.
std::pair<std::string, std::string> TwoValues(const Option& option) {
  if (IsSwitch(option)) return {"true", "false"};
  if (IsList(option)) return {"one", "two"};
  if (!option.choices.empty()) {
    return {std::string(option.choices.back()), std::string(option.choices.front())};
  }
  if (option.text_rule == TextRule::kSha256OrEmpty) {
    return {std::string(64, 'a'), std::string(64, 'b')};
  }
  if (std::holds_alternative<double& (*)(Settings&)>(option.field)) {
    const double low = std::max(option.reals.low, 0.0);
    return {fmt::format("{}", low + 0.25), fmt::format("{}", low + 0.5)};
  }
  if (std::holds_alternative<std::string& (*)(Settings&)>(option.field)) return {"one", "two"};
  const int64_t low = std::max<int64_t>(option.integers.low, 16);
  return {fmt::format("{}", low), fmt::format("{}", low + 1)};
}

TEST_F(ConfigTest, EachKeyThroughFileEnvironmentAndFlag) {
  for (const Option& option : Options()) {
    if (option.key == "engine") continue;  // its last choice becomes cpu
    const auto [a, b] = TwoValues(option);
    Settings settings;
    ASSERT_TRUE(SetOption(option, RawValue::Text(a), {}, &settings).ok()) << option.key;
    const std::string text_a = ValueText(option, settings);
    ASSERT_TRUE(SetOption(option, RawValue::Text(b), {}, &settings).ok()) << option.key;
    const std::string text_b = ValueText(option, settings);

    ConfigInputs inputs = {.config_flag = File(std::string(option.key) + ": " + a + "\n"),
                           .system_file = ""};
    auto config = LoadConfig(inputs);
    ASSERT_TRUE(config.ok()) << option.key << ": " << config.error().Message();
    EXPECT_EQ(ValueText(option, config->settings), text_a);
    EXPECT_THAT(OriginOf(*config, option.key), HasSubstr("config.yaml:1"));

    inputs.environment[EnvironmentName(option.key)] = b;
    config = LoadConfig(inputs);
    ASSERT_TRUE(config.ok()) << option.key;
    EXPECT_EQ(ValueText(option, config->settings), text_b);
    EXPECT_EQ(OriginOf(*config, option.key), EnvironmentName(option.key));

    if (option.flag.empty()) continue;
    inputs.flags = {{&option, {a}}};
    config = LoadConfig(inputs);
    ASSERT_TRUE(config.ok()) << option.key;
    EXPECT_EQ(ValueText(option, config->settings), text_a);
    EXPECT_EQ(OriginOf(*config, option.key), "--" + std::string(option.flag));
  }
}

TEST_F(ConfigTest, ProfileIsBelowTheFileAndAboveTheBuiltIn) {
  auto config = Load("profile: a100-h100\nmax_batch_size: 3\n");
  ASSERT_TRUE(config.ok()) << config.error().Message();
  EXPECT_EQ(config->settings.window_size, 32768);
  EXPECT_EQ(config->settings.kv_cache_policy, "block");
  EXPECT_EQ(config->settings.max_batch_size, 3);
  EXPECT_EQ(OriginOf(*config, "window_size"), "profile a100-h100");
  EXPECT_FALSE(config->settings.window_from_flag);
}

TEST_F(ConfigTest, ProfileFromTheEnvironmentWins) {
  const auto config = LoadConfig({.config_flag = File("profile: a100-h100\n"),
                                  .environment = {{"MOORING_PROFILE", "t4-v100"}},
                                  .system_file = ""});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->settings.window_size, 8192);
  EXPECT_EQ(config->settings.precision, "fp16");
}

TEST_F(ConfigTest, BuiltInProfilesAllLoad) {
  for (const std::string_view name : FindOption("profile")->choices) {
    EXPECT_TRUE(Load("profile: " + std::string(name) + "\n").ok()) << name;
  }
}

TEST_F(ConfigTest, PublishedProfilesLoadUnchanged) {
  const auto t4 = Load(
      "engine: tensorrt\nprecision: fp16\nwindow_size: 8192\nmax_batch_size: 2\n"
      "kv_cache_policy: dynamic\n");
  ASSERT_TRUE(t4.ok()) << t4.error().Message();
  EXPECT_EQ(t4->settings.engine, "cpu");
  EXPECT_THAT(OriginOf(*t4, "engine"), HasSubstr("tensorrt"));
  ASSERT_THAT(t4->warnings, SizeIs(1));
  const auto a100 = Load(
      "engine: tensorrt\nprecision: int8\nwindow_size: 32768\nmax_batch_size: 8\n"
      "kv_cache_policy: block\nuse_cuda_graph: true\n");
  ASSERT_TRUE(a100.ok()) << a100.error().Message();
  EXPECT_EQ(a100->settings.use_cuda_graph, "false");
  EXPECT_THAT(OriginOf(*a100, "use_cuda_graph"), HasSubstr("true without a GPU"));
  EXPECT_EQ(a100->settings.window_size, 32768);
  ASSERT_THAT(a100->warnings, SizeIs(2));
  EXPECT_THAT(a100->warnings[1], HasSubstr("use_cuda_graph true"));
}

TEST(RuntimeTest, KeysAndValuesGoWithThePrecision) {
  const auto chosen = [](std::string precision, std::string key_value) {
    Settings settings;
    settings.precision = std::move(precision);
    settings.memory.key_value = std::move(key_value);
    const Result<DType> dtype = ChooseKeyValue(settings);
    return dtype.ok() ? std::string(KeyValueName(*dtype)) : "an error";
  };
  EXPECT_EQ(chosen("auto", "auto"), "int8");
  EXPECT_EQ(chosen("int8", "auto"), "int8");
  EXPECT_EQ(chosen("fp16", "auto"), "fp16");
  EXPECT_EQ(chosen("bf16", "auto"), "fp16");
  EXPECT_EQ(chosen("fp32", "auto"), "f32");
  for (const char* asked : {"int8", "fp16", "f32"}) EXPECT_EQ(chosen("auto", asked), asked);
  EXPECT_EQ(chosen("auto", "int4"), "an error");
}

TEST_F(ConfigTest, WindowFromFlagIsKnown) {
  const ConfigInputs inputs = {.flags = {{FindOption("window_size"), {"4096"}}}, .system_file = ""};
  const auto config = LoadConfig(inputs);
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->settings.window_from_flag);
}

TEST_F(ConfigTest, BadFlagIsUsageAndBadEnvironmentIsConfig) {
  auto config = LoadConfig({.flags = {{FindOption("window_size"), {"many"}}}, .system_file = ""});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::kUsage);
  config = LoadConfig({.environment = {{"MOORING_WINDOW_SIZE", "many"}}, .system_file = ""});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::kConfig);
}

TEST_F(ConfigTest, UnknownEnvironmentNames) {
  const auto load = [](const std::string& name) {
    return LoadConfig({.environment = {{name, "1"}}, .system_file = ""});
  };
  EXPECT_THAT(load("MOORING_WINDOWSIZE").error().Message(), HasSubstr("MOORING_WINDOW_SIZE"));
  EXPECT_THAT(load("MOORING_SERVER__CORS_ORIGINS").error().Message(),
              HasSubstr("does not have it yet"));
  const auto foreign = load("MOORING_SERVICE_PORT_HTTP_7437_TCP_ADDR");
  ASSERT_TRUE(foreign.ok());
  EXPECT_THAT(foreign->warnings, SizeIs(1));
  EXPECT_TRUE(load("MOORING_HOME").ok());
  EXPECT_THAT(load("MOORING_TEST_MODEL")->warnings, SizeIs(0));
  EXPECT_TRUE(LoadConfig({.environment = {{"MOORING_WINDOW_SIZE", ""}}, .system_file = ""}).ok());
}

TEST_F(ConfigTest, StopListsFromEveryPlace) {
  auto config = Load("sampling: {stop: [\"a\", 'b: c']}\n");
  ASSERT_TRUE(config.ok()) << config.error().Message();
  EXPECT_THAT(config->settings.sampling.stop, testing::ElementsAre("a", "b: c"));
  config = LoadConfig({.environment = {{"MOORING_SAMPLING__STOP", "[x, y]"}}, .system_file = ""});
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(config->settings.sampling.stop, testing::ElementsAre("x", "y"));
  config = LoadConfig({.flags = {{FindOption("sampling.stop"), {"[p]", "q"}}}, .system_file = ""});
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(config->settings.sampling.stop, testing::ElementsAre("[p]", "q"));
}

TEST_F(ConfigTest, FaultsNameTheLine) {
  EXPECT_THAT(Fault("engine: cpu\nengin: cpu\n"), HasSubstr("config.yaml:2"));
  EXPECT_THAT(Fault("engin: cpu\n"), HasSubstr("did you mean engine?"));
  EXPECT_THAT(Fault("memory:\n  policy: sink\n"), HasSubstr("config.yaml:2"));
  EXPECT_THAT(Fault("memory: {policy: keys}\n"), HasSubstr("does not have it yet"));
  EXPECT_THAT(Fault("server: {cors_origins: 1}\n"), HasSubstr("does not have it yet"));
  EXPECT_THAT(Fault("model: smollm2\n"), HasSubstr("group"));
  EXPECT_THAT(Fault("window_size: [1]\n"), HasSubstr("a list"));
  EXPECT_THAT(Fault("engine: null\n"), HasSubstr("null"));
}

TEST_F(ConfigTest, YamlThatIsRefused) {
  EXPECT_THAT(Fault("engine: cpu\nengine: auto\n"), HasSubstr("second time"));
  EXPECT_THAT(Fault("memory: {anchors: 4}\nmemory.anchors: 5\n"), HasSubstr("second time"));
  EXPECT_THAT(Fault("a: &x 1\nb: *x\n"), HasSubstr("an anchor"));
  EXPECT_THAT(Fault("engine: !!str cpu\n"), HasSubstr("a tag"));
  EXPECT_THAT(Fault("engine: cpu\n---\nengine: auto\n"), HasSubstr("more than one document"));
  EXPECT_THAT(Fault("- a\n- b\n"), HasSubstr("a list"));
  EXPECT_THAT(Fault("hello\n"), HasSubstr("keys and values"));
  EXPECT_THAT(Fault("? [a]\n: b\n"), HasSubstr("config.yaml:1"));
  EXPECT_THAT(Fault("a: {b: {c: {d: {e: {f: {g: {h: {i: 1}}}}}}}}\n"), HasSubstr("levels"));
  EXPECT_THAT(Fault("engine: [cpu\n"), HasSubstr("config.yaml:"));
  EXPECT_THAT(Fault("engine: \"cpu\n"), HasSubstr("config.yaml:"));
  EXPECT_NE(Fault(std::string(100000, '[')), "none");
  EXPECT_NE(Fault(std::string(2 << 20, '#')), "none");
  EXPECT_NE(Fault(std::string("\0\0\0", 3)), "none");
}

TEST_F(ConfigTest, EmptyFilesAndGroupsAreFine) {
  EXPECT_EQ(Fault(""), "none");
  EXPECT_EQ(Fault("# only a comment\n"), "none");
  EXPECT_EQ(Fault("memory:\n  # policy: dense\n"), "none");
  EXPECT_EQ(Fault("sampling: {seed: null}\nmodel: {sha256: ~}\n"), "none");
}

TEST_F(ConfigTest, WhichFileIsRead) {
  const std::string named = File("max_batch_size: 1\n", "named.yaml");
  const std::string other = File("max_batch_size: 2\n", "other.yaml");
  const std::string home = File("max_batch_size: 3\n", "home/.config/mooring/config.yaml");
  const std::string xdg = File("max_batch_size: 4\n", "xdg/mooring/config.yaml");
  const std::string system = File("max_batch_size: 5\n", "system.yaml");
  ConfigInputs inputs = {.config_flag = named,
                         .environment = {{"MOORING_CONFIG", other},
                                         {"HOME", (folder_ / "home").string()},
                                         {"XDG_CONFIG_HOME", (folder_ / "xdg").string()}},
                         .system_file = system};
  const auto batch = [&] { return LoadConfig(inputs)->settings.max_batch_size; };
  EXPECT_EQ(batch(), 1);
  inputs.config_flag.clear();
  EXPECT_EQ(batch(), 2);
  inputs.environment.erase("MOORING_CONFIG");
  EXPECT_EQ(batch(), 4);
  inputs.environment.erase("XDG_CONFIG_HOME");
  EXPECT_EQ(batch(), 3);
  inputs.environment.erase("HOME");
  EXPECT_EQ(batch(), 5);
  inputs.system_file = "";
  EXPECT_EQ(batch(), 8);
}

TEST_F(ConfigTest, NamedFileMustExist) {
  const auto config =
      LoadConfig({.config_flag = (folder_ / "missing").string(), .system_file = ""});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.error().kind, ErrorKind::kConfig);
  EXPECT_FALSE(LoadConfig({.config_flag = folder_.string(), .system_file = ""}).ok());
}

TEST_F(ConfigTest, ExampleIsValidAndChangesNothing) {
  const auto config = Load(ExampleConfig());
  ASSERT_TRUE(config.ok()) << config.error().Message();
  for (const Option& option : Options()) {
    EXPECT_EQ(ValueText(option, config->settings), DefaultText(option)) << option.key;
  }
}

TEST_F(ConfigTest, ExampleFileIsWhatTheTableMakes) {
  const std::string path = std::string(MOORING_SOURCE_DIR) + "/docs/config.example.yaml";
  const auto text = ReadFile(path, kMaxYamlBytes);
  ASSERT_TRUE(text.ok()) << text.error().Message();
  EXPECT_EQ(*text, ExampleConfig()) << "mooring config example > docs/config.example.yaml";
}

}  // namespace
}  // namespace mooring
