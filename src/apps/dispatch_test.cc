#include "apps/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/arguments.h"
#include "apps/command.h"
#include "apps/kernel_check.h"
#include "apps/options.h"
#include "apps/output.h"
#include "kernels/select.h"
#include "load/gguf_test_writer.h"

namespace mooring {
namespace {

using testing::HasSubstr;

struct Outcome {
  int code = 0;
  std::string out;
  std::string err;
};

class DispatchTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "mooring-dispatch-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    setenv("MOORING_HOME", name.c_str(), 1);
    program_.system_config = "";
  }
  void TearDown() override {
    unsetenv("MOORING_HOME");
    std::filesystem::remove_all(folder_);
  }

  Outcome Run(const std::vector<std::string>& arguments) {
    char* out = nullptr;
    char* err = nullptr;
    size_t out_size = 0;
    size_t err_size = 0;
    program_.out = open_memstream(&out, &out_size);
    program_.err = open_memstream(&err, &err_size);
    Outcome outcome;
    outcome.code = RunMooring(arguments, program_);
    std::fclose(program_.out);
    std::fclose(program_.err);
    outcome.out.assign(out, out_size);
    outcome.err.assign(err, err_size);
    std::free(out);
    std::free(err);
    return outcome;
  }

  std::string File(const std::string& name, const std::string& content) {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return (folder_ / name).string();
  }
  // A file that is well formed, but of no model.
  std::string SmallModelFile() {
    GgufWriter writer;
    writer.AddValue("general.architecture", "none");
    writer.AddTensor("token_embd.weight", DType::kF32, {2, 2}, std::string(16, '\0'));
    return File("small.gguf", writer.Build());
  }

  std::filesystem::path folder_;
  Program program_;
};

TEST_F(DispatchTest, NoCommandShowsHelpAndIsUsage) {
  const Outcome outcome = Run({});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, HasSubstr("Examples"));
}

TEST_F(DispatchTest, HelpGoesToStandardOutput) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"help"}, {"-h"}}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Commands"));
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(DispatchTest, EveryCommandHasHelpThatNamesItsFlags) {
  for (const Command& command : Commands()) {
    std::vector<std::string> words;
    const size_t space = command.name.find(' ');
    words.emplace_back(command.name.substr(0, space));
    if (space != command.name.npos) words.emplace_back(command.name.substr(space + 1));
    words.emplace_back("--help");
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.code, 0) << command.name;
    EXPECT_THAT(outcome.out, HasSubstr("Usage"));
    EXPECT_LT(outcome.out.find("Examples"), outcome.out.find("Usage")) << command.name;
    for (const CommandFlag& flag : command.flags) {
      EXPECT_THAT(outcome.out, HasSubstr("--" + std::string(flag.name))) << command.name;
    }
    for (const Option& option : Options()) {
      if (option.flag.empty() || !Takes(command, option)) continue;
      EXPECT_THAT(outcome.out, HasSubstr("--" + std::string(option.flag))) << command.name;
    }
    EXPECT_NE(command.run, nullptr);
  }
}

TEST_F(DispatchTest, HelpTopics) {
  EXPECT_THAT(Run({"help", "settings"}).out, HasSubstr("memory.policy"));
  EXPECT_THAT(Run({"help", "environment"}).out, HasSubstr("MOORING_MEMORY__POLICY"));
  EXPECT_THAT(Run({"help", "exit-codes"}).out, HasSubstr("143"));
  EXPECT_THAT(Run({"help", "config"}).out, HasSubstr("config show"));
  EXPECT_THAT(Run({"help", "config", "show"}).out, HasSubstr("Usage"));
  const Outcome unknown = Run({"help", "lst"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("did you mean list?"));
}

TEST_F(DispatchTest, Version) {
  EXPECT_THAT(Run({"version"}).out, HasSubstr("kernels"));
  EXPECT_THAT(Run({"--version"}).out, HasSubstr("mooring 0."));
  const auto json = nlohmann::json::parse(Run({"version", "--json"}).out);
  EXPECT_TRUE(json["kernels"].is_array());
}

TEST_F(DispatchTest, UsageErrors) {
  const auto fails = [&](const std::vector<std::string>& arguments, const std::string& part) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 2) << part;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, HasSubstr(part));
  };
  fails({"lst"}, "did you mean list?");
  fails({"completion"}, "does not have it yet");
  fails({"config"}, "one of show, check, path, example");
  fails({"config", "shw"}, "one of show");
  fails({"pull"}, "pull needs SOURCE");
  fails({"list", "extra"}, "one argument too many");
  fails({"list", "--jsn"}, "did you mean --json?");
  fails({"list", "--temperature", "1"}, "is not a flag of list");
  fails({"--temperature", "1", "list"}, "behind the command");
  fails({"config", "show", "--no-pack-cache"}, "does not have it yet");
  fails({"config", "show", "--window"}, "--window needs a value");
  fails({"config", "show", "--window", "--json"}, "--window needs a value");
  fails({"config", "show", "--window", "many"}, "whole number");
  fails({"config", "show", "--policy", "keys"}, "does not have it yet");
  fails({"config", "show", "--policy", "sink"}, "did you mean sinks?");
  fails({"list", "--json=1"}, "takes no value");
  fails({"rm", "smollm2", "-x"}, "unknown flag");
}

TEST_F(DispatchTest, GlobalFlagsStandAnywhere) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--json", "config", "path"},
        {"config", "--json", "path"},
        {"config", "path", "--json"}}) {
    const Outcome outcome = Run(arguments);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_TRUE(nlohmann::json::accept(outcome.out)) << outcome.out;
  }
}

TEST_F(DispatchTest, ErrorsAsJson) {
  const Outcome outcome = Run({"list", "--nonsense", "--json"});
  EXPECT_EQ(outcome.code, 2);
  const auto json = nlohmann::json::parse(outcome.err);
  EXPECT_EQ(json["error"]["kind"], "usage");
  EXPECT_THAT(json["error"]["message"].get<std::string>(), HasSubstr("nonsense"));
}

TEST_F(DispatchTest, ConfigShowNamesOrigins) {
  const std::string path = File("c.yaml", "engine: tensorrt\nwindow_size: 8192\n");
  program_.environment["MOORING_THREADS"] = "2";
  const Outcome outcome = Run({"--config", path, "config", "show", "--seed", "7", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("warning: engine tensorrt"));
  std::map<std::string, nlohmann::json> rows;
  const auto json = nlohmann::json::parse(outcome.out);
  for (const auto& row : json["settings"]) rows[row["key"]] = row;
  EXPECT_EQ(rows["engine"]["value"], "cpu");
  EXPECT_EQ(rows["window_size"]["value"], 8192);
  EXPECT_EQ(rows["window_size"]["origin"], path + ":2");
  EXPECT_EQ(rows["threads"]["origin"], "MOORING_THREADS");
  EXPECT_EQ(rows["sampling.seed"]["origin"], "--seed");
  EXPECT_EQ(rows["sampling.top_k"]["origin"], "built-in");
  EXPECT_EQ(Run({"--quiet", "--config", path, "config", "show"}).err, "");
}

TEST_F(DispatchTest, InvalidConfigurationIsThree) {
  const std::string path = File("c.yaml", "engine: cpu\nengin: cpu\n");
  EXPECT_EQ(Run({"--config", path, "list"}).code, 3);
  const Outcome check = Run({"config", "check", path});
  EXPECT_EQ(check.code, 3);
  EXPECT_THAT(check.err, HasSubstr(":2"));
  // Commands that help to repair it still work.
  EXPECT_EQ(Run({"--config", path, "version"}).code, 0);
  EXPECT_EQ(Run({"--config", path, "config", "path"}).code, 0);
  EXPECT_EQ(Run({"config", "check", File("good.yaml", "engine: cpu\n")}).code, 0);
  EXPECT_EQ(Run({"config", "check"}).code, 0);
  EXPECT_EQ(Run({"config", "check", "/nonexistent"}).code, 3);
}

TEST_F(DispatchTest, ModelsThatAreNotThere) {
  EXPECT_EQ(Run({"list"}).code, 0);
  EXPECT_EQ(Run({"list", "--json"}).out, "{\"models\":[]}\n");
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"show", "nothing"},
                                                    {"verify", "nothing"},
                                                    {"rm", "nothing", "--yes"},
                                                    {"tokenize", "--model", "nothing", "text"},
                                                    {"template", "--model", "nothing"}}) {
    EXPECT_EQ(Run(arguments).code, 5) << arguments[0];
  }
}

TEST_F(DispatchTest, VerifyFindsFaults) {
  const std::string good = SmallModelFile();
  const Outcome fine = Run({"verify", good, "--json"});
  ASSERT_EQ(fine.code, 0) << fine.err;
  EXPECT_EQ(nlohmann::json::parse(fine.out)["tensors"], 1);
  EXPECT_EQ(Run({"verify", good, "--sha256", std::string(64, '0')}).code, 9);
  EXPECT_EQ(Run({"verify", File("bad.gguf", "GGUF but short")}).code, 9);
  EXPECT_EQ(Run({"verify", File("text.txt", "hello")}).code, 9);
}

TEST_F(DispatchTest, ShowDescribesWhatCannotRun) {
  const Outcome outcome = Run({"show", SmallModelFile(), "--tensors"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("not usable"));
  EXPECT_THAT(outcome.out, HasSubstr("token_embd.weight"));
  const auto json = nlohmann::json::parse(Run({"show", SmallModelFile(), "--json"}).out);
  EXPECT_EQ(json["architecture"], "none");
}

TEST_F(DispatchTest, PullListShowVerifyRemove) {
  const std::string source = std::string(MOORING_SOURCE_DIR) + "/tests/golden/tiny/q4_1-d128.gguf";
  const Outcome pulled = Run({"pull", source, "--json"});
  ASSERT_EQ(pulled.code, 0) << pulled.err;
  const auto name = nlohmann::json::parse(pulled.out)["name"].get<std::string>();
  EXPECT_THAT(Run({"pull", source, "--no-progress"}).out, HasSubstr(name + " is "));
  EXPECT_THAT(Run({"list"}).out, HasSubstr(name));
  const auto listed = nlohmann::json::parse(Run({"list", "--json"}).out);
  EXPECT_EQ(listed["models"][0]["trained_window"], 512);
  EXPECT_EQ(nlohmann::json::parse(Run({"show", name, "--json"}).out)["model"]["layers"], 3);
  EXPECT_EQ(Run({"verify", name}).code, 0);
  EXPECT_EQ(Run({"doctor", "--model", name}).code, 0);
  // A stored file that has changed is found by its hash.
  const std::string path = listed["models"][0]["path"];
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(-1, std::ios::end);
    file.put('\x7f');
  }
  EXPECT_EQ(Run({"verify", name}).code, 9);
  EXPECT_EQ(Run({"doctor", "--model", name}).code, 9);
  EXPECT_EQ(Run({"rm", name, "--yes"}).code, 0);
  EXPECT_EQ(Run({"show", name}).code, 5);
}

TEST_F(DispatchTest, TokensAndTemplates) {
  const std::string model = std::string(MOORING_SOURCE_DIR) + "/tests/golden/tiny/q4_1-d128.gguf";
  const auto typed =
      nlohmann::json::parse(Run({"tokenize", "--model", model, "--json", "<|im_end|>"}).out);
  EXPECT_GT(typed["count"], 1);
  const auto special = nlohmann::json::parse(
      Run({"tokenize", "--model", model, "--json", "--special", "<|im_end|>"}).out);
  EXPECT_EQ(special["count"], 1);
  EXPECT_EQ(special["tokens"][0]["special"], true);

  const std::string messages = File("m.json", R"({"messages":[{"role":"user","content":"A"},)"
                                              R"({"role":"assistant","content":"B"},)"
                                              R"({"role":"user","content":"C"}]})");
  const Outcome shown = Run({"template", "--model", model, "--messages", messages, "--json"});
  ASSERT_EQ(shown.code, 0) << shown.err;
  const auto json = nlohmann::json::parse(shown.out);
  EXPECT_EQ(json["prompt"],
            "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n"
            "<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(json["delta"], "<|im_end|>\n<|im_start|>user\nC<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(Run({"template", "--model", model, "--messages", File("bad.json", "{")}).code, 2);
  EXPECT_EQ(Run({"template", "--model", model, "--template", "nonesuch"}).code, 2);
}

TEST_F(DispatchTest, BenchHoldsItsFiguresAgainstCeilings) {
  const std::string model = std::string(MOORING_SOURCE_DIR) + "/tests/golden/tiny/q4_1-d128.gguf";
  const Outcome outcome = Run({"bench", "--model", model, "--cases", "prefill,decode,append,memory",
                               "--lengths", "20", "--repeat", "1", "--window", "256", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_GT(json["ceilings"]["gb_per_second"], 0);
  EXPECT_GT(json["ceilings"]["gmac_per_second"], 0);
  ASSERT_EQ(json["cases"].size(), 4U);
  for (const auto& each : json["cases"]) {
    EXPECT_EQ(each.contains("share_of_ceiling"), each.contains("gmac_per_second")) << each;
  }
  EXPECT_GT(json["cases"][0]["share_of_ceiling"], 0);
  // Nothing is measured that no figure needs: it would take memory from the case of that name.
  const Outcome memory = Run({"bench", "--model", model, "--cases", "memory", "--json"});
  EXPECT_FALSE(nlohmann::json::parse(memory.out).contains("ceilings"));
}

TEST_F(DispatchTest, ExplainPlanComesFirstAndOnlyWhenAsked) {
  const std::string model = std::string(MOORING_SOURCE_DIR) + "/tests/golden/tiny/mixed-d64.gguf";
  const std::vector<std::string> run = {"run", model, "Hello", "--raw", "--max-tokens", "1"};
  EXPECT_THAT(Run(run).err, Not(HasSubstr("products")));
  std::vector<std::string> explained = run;
  explained.push_back("--explain-plan");
  const Outcome outcome = Run(explained);
  EXPECT_EQ(outcome.code, 0);
  for (const char* part : {"isa auto", "GB/s", "gate, up", "integers, activations of 16 bits",
                           "answer, empty window", "tokens/s at most"}) {
    EXPECT_THAT(outcome.err, HasSubstr(part));
  }
  // A tensor kind of several formats has a row for each.
  EXPECT_THAT(outcome.err, HasSubstr("floats"));
}

TEST_F(DispatchTest, DoctorReportsAMissingModel) {
  program_.environment["HOME"] = folder_.string();
  const Outcome outcome = Run({"doctor", "--model", "nothing", "--deep", "--json"});
  EXPECT_EQ(outcome.code, 9);
  const auto json = nlohmann::json::parse(outcome.out);
  EXPECT_FALSE(json["ok"]);
  EXPECT_GT(json["findings"].size(), 8U);
  EXPECT_THAT(outcome.out, HasSubstr("GB/s and multiply"));
  for (const auto& finding : json["findings"]) {
    if (finding["level"] != "ok") {
      EXPECT_NE(finding["do"], "") << finding["what"];
    }
    if (finding["level"] == "fail") {
      EXPECT_THAT(std::string(finding["what"]), HasSubstr("model"));
    }
  }
}

TEST_F(DispatchTest, DoctorReportsAnInvalidConfiguration) {
  const Outcome outcome = Run({"--config", File("c.yaml", "engin: cpu\n"), "doctor"});
  EXPECT_EQ(outcome.code, 9);
  EXPECT_THAT(outcome.out, HasSubstr("did you mean engine?"));
}

TEST_F(DispatchTest, AFullDiskIsAnError) {
  program_.err = std::tmpfile();
  program_.out = std::fopen("/dev/full", "w");
  ASSERT_NE(program_.out, nullptr);
  EXPECT_EQ(RunMooring(std::vector<std::string>{"help"}, program_), 7);
  std::fclose(program_.out);
  std::fclose(program_.err);
}

TEST(ArgumentsTest, ValuesAndTheEndOfFlags) {
  const std::vector<std::string> words = {"tokenize", "--model=m", "--special", "--", "--model"};
  const auto parsed = ParseArguments(words, Commands());
  ASSERT_TRUE(parsed.ok()) << parsed.error().Message();
  EXPECT_EQ(parsed->command->name, "tokenize");
  EXPECT_EQ(parsed->options[0].values[0], "m");
  EXPECT_TRUE(parsed->flags.contains("special"));
  EXPECT_THAT(parsed->positional, testing::ElementsAre("--model"));
}

TEST(ArgumentsTest, DashAndNumbersAreArguments) {
  const std::vector<std::string> dash = {"tokenize", "-"};
  EXPECT_THAT(ParseArguments(dash, Commands())->positional, testing::ElementsAre("-"));
  const std::vector<std::string> number = {"tokenize", "-5 apples"};
  EXPECT_THAT(ParseArguments(number, Commands())->positional, testing::ElementsAre("-5 apples"));
  const std::vector<std::string> list = {"tokenize", "[a,b]"};
  EXPECT_THAT(ParseArguments(list, Commands())->positional, testing::ElementsAre("[a,b]"));
}

TEST(OutputTest, Numbers) {
  EXPECT_EQ(HumanBytes(999), "999 B");
  EXPECT_EQ(HumanBytes(98'362'432), "98.4 MB");
  EXPECT_EQ(HumanBytes(999'999'999), "1.0 GB");
  EXPECT_EQ(Grouped(1048576), "1,048,576");
  EXPECT_EQ(Grouped(-123), "-123");
  EXPECT_EQ(ProgressText(50'000'000, 100'000'000, 10'000'000.0),
            " 50%  50.0 MB of 100.0 MB  10.0 MB/s  0:05 left");
  EXPECT_EQ(ProgressText(5, 0, 0.0), "5 B");
}

TEST(OutputTest, SafeTextCannotSteerATerminal) {
  EXPECT_EQ(SafeText("a\x1b[2Jb\nc"), "a\\x1b[2Jb\\x0ac");
  EXPECT_EQ(SafeText("a\nb\t", true), "a\nb\t");
  EXPECT_EQ(SafeText("caf\xc3\xa9 \xff"), "caf\xc3\xa9 \\xff");
  EXPECT_EQ(SafeText("\xe2\x80\xae"), "\\xe2\\x80\\xae");  // right-to-left override
}

TEST(SelfTest, EveryTableAgreesWithTheLast) {
  const auto tables = RunnableKernels();
  for (const Kernels* table : tables) {
    for (const KernelCheck& result : CompareKernels(*table, *tables.back())) {
      EXPECT_TRUE(result.ok()) << result.name << " " << result.error;
    }
  }
}

}  // namespace
}  // namespace mooring
