// `chat`, `run` and `conv` with a tiny model, as a program at a pipe meets them.

#include "apps/talk_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/chat.h"
#include "apps/line_reader.h"
#include "apps/output.h"
#include "apps/run.h"
#include "apps/state_folder.h"

namespace mooring {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string TinyModel(std::string_view name = "f32-d32") {
  return fmt::format("{}/tests/golden/tiny/{}.gguf", MOORING_SOURCE_DIR, name);
}

class TalkCommandsTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("talk_test_{}", ::getpid());
    std::filesystem::create_directories(folder_);
    context_.out = out_ = std::tmpfile();
    context_.err = err_ = std::tmpfile();
    context_.interrupted = &interrupted_;
    context_.settings.sampling.max_tokens = 8;
    context_.settings.sampling.temperature = 0.0;
    context_.settings.threads = 1;
    context_.settings.memory.encoder = "none";
  }
  void TearDown() override {
    std::fclose(out_);
    std::fclose(err_);
    std::filesystem::remove_all(folder_);
  }

  // What was written to `file` since the last call.
  static std::string Take(std::FILE* file) {
    std::fflush(file);
    std::rewind(file);
    std::string text;
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) text += static_cast<char>(c);
    std::rewind(file);
    EXPECT_EQ(::ftruncate(fileno(file), 0), 0);
    return text;
  }
  std::string Out() const { return Take(out_); }
  std::string Err() const { return Take(err_); }

  template <typename F>
  static Status WithInput(const std::string& text, const F& run) {
    std::FILE* input = std::tmpfile();
    std::fwrite(text.data(), 1, text.size(), input);
    std::fflush(input);
    EXPECT_EQ(::lseek(fileno(input), 0, SEEK_SET), 0);
    Status status = run(input);
    std::fclose(input);
    return status;
  }
  Status Chat(const std::string& input) {
    context_.arguments = {TinyModel()};
    return WithInput(input, [this](std::FILE* file) { return RunChatOn(context_, file); });
  }
  Status Run(const std::string& input, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), TinyModel());
    context_.arguments = std::move(arguments);
    return WithInput(input, [this](std::FILE* file) { return RunOnceOn(context_, file); });
  }
  Status Do(const Command& command, std::vector<std::string> arguments) {
    context_.arguments = std::move(arguments);
    context_.settings.model.path = TinyModel();
    return command.run(context_);
  }
  std::vector<Json> JsonLines() const {
    std::vector<Json> lines;
    std::istringstream text(Out());
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  std::string Path(std::string_view name) const { return (folder_ / name).string(); }

  CommandContext context_;
  std::atomic<bool> interrupted_ = false;
  std::FILE* out_ = nullptr;
  std::FILE* err_ = nullptr;
  std::filesystem::path folder_;
};

TEST_F(TalkCommandsTest, ChatOnAPipeIsOneTurnPerLine) {
  context_.global.json = true;
  const Status status = Chat("Hello\n\n/etc/passwd is a path\nlast line without an end");
  ASSERT_TRUE(status.ok()) << status.error().Message();
  const std::vector<Json> turns = JsonLines();
  ASSERT_EQ(turns.size(), 3U);
  int64_t log = 0;
  for (size_t i = 0; i < turns.size(); ++i) {
    EXPECT_EQ(turns[i]["turn"], i + 1);
    EXPECT_TRUE(turns[i]["text"].is_string());
    EXPECT_TRUE(turns[i]["finish_reason"] == "length" || turns[i]["finish_reason"] == "stop");
    EXPECT_EQ(turns[i]["window"]["anchors"], 32);
    EXPECT_GT(turns[i]["new_tokens"], 10);
    EXPECT_EQ(turns[i]["log_tokens"], log + turns[i]["new_tokens"].get<int64_t>() +
                                          turns[i]["generated_tokens"].get<int64_t>());
    log = turns[i]["log_tokens"];
  }
  EXPECT_EQ(Err(), "");
}

TEST_F(TalkCommandsTest, AnEncoderThatCannotBeReadIsSaidAndTheTalkGoesOn) {
  const std::string whole = fmt::format("{}/tests/golden/tiny/encoder", MOORING_SOURCE_DIR);
  const std::string cut = Path("cut");
  std::filesystem::copy(whole, cut);
  std::filesystem::resize_file(cut + "/model.safetensors", 50'000);
  for (const std::string& encoder : {whole, cut, Path("nowhere"), std::string("no-such-encoder")}) {
    context_.settings.memory.encoder = encoder;
    ASSERT_TRUE(Chat("Hello\n").ok());
    EXPECT_FALSE(Out().empty());
    const std::string said = Err();
    EXPECT_EQ(said.find("found by its words only") == std::string::npos, encoder == whole) << said;
    EXPECT_EQ(said.find(encoder) == std::string::npos, encoder == whole) << said;
  }
}

TEST_F(TalkCommandsTest, ChatOnAPipePrintsAnswersAndNothingElse) {
  ASSERT_TRUE(Chat("Hello\n").ok());
  const std::string out = Out();
  EXPECT_FALSE(out.empty());
  EXPECT_EQ(out.back(), '\n');
  EXPECT_THAT(out, Not(HasSubstr("> ")));
  EXPECT_THAT(Err(), HasSubstr("[stopped: length]"));
}

TEST_F(TalkCommandsTest, ChatGoesOnFromItsFile) {
  context_.global.json = true;
  ASSERT_TRUE(Chat("One\nTwo\nThree\n").ok());
  const std::vector<Json> whole = JsonLines();
  context_.flags["conversation"] = Path("talk.moor");
  ASSERT_TRUE(Chat("One\nTwo\n").ok());
  ASSERT_TRUE(Chat("Three\n").ok());
  const std::vector<Json> parts = JsonLines();
  ASSERT_EQ(parts.size(), 3U);
  for (size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(parts[i]["text"], whole[i]["text"]) << i;
    EXPECT_EQ(parts[i]["log_tokens"], whole[i]["log_tokens"]) << i;
    EXPECT_EQ(parts[i]["turn"], whole[i]["turn"]) << i;
  }
  context_.flags["new"] = "true";
  ASSERT_TRUE(Chat("One\n").ok());
  EXPECT_EQ(JsonLines()[0]["turn"], 1);
}

TEST_F(TalkCommandsTest, ChatKeepsTheWindowOfItsFile) {
  context_.flags["conversation"] = Path("talk.moor");
  context_.settings.window_size = 64;
  ASSERT_TRUE(Chat("One\n").ok());
  context_.settings.window_size.reset();
  context_.global.json = true;
  Out();
  ASSERT_TRUE(Chat("Two\n").ok());
  EXPECT_EQ(JsonLines()[0]["window"]["capacity"], 64);
  context_.settings.window_size = 128;
  const Status status = Chat("Three\n");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kConfig);
  EXPECT_THAT(status.error().Message(), HasSubstr("--window 64"));
}

TEST_F(TalkCommandsTest, ChatRefusesADamagedFileAndLeavesItAlone) {
  context_.flags["conversation"] = Path("talk.moor");
  std::ofstream(Path("talk.moor")) << "MOOR, and then something else that is no conversation";
  const Status status = Chat("Hello\n");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(Out(), "");
  std::ifstream file(Path("talk.moor"));
  std::string text;
  std::getline(file, text);
  EXPECT_THAT(text, testing::StartsWith("MOOR, and then"));
}

TEST_F(TalkCommandsTest, OneTalkPerFile) {
  ConfigInputs inputs;
  inputs.environment = {{"HOME", folder_.string()}};
  context_.config_inputs = &inputs;
  context_.flags["conversation"] = Path("talk.moor");
  {
    const auto lock = LockFileInState(inputs.environment, folder_ / "." / "talk.moor");
    ASSERT_TRUE(lock.ok() && lock->has_value());
    EXPECT_EQ(Chat("Hello\n").error().kind, ErrorKind::kStateHeld);
  }
  EXPECT_TRUE(Chat("Hello\n").ok());
}

TEST_F(TalkCommandsTest, WhatCannotBeWrittenIsSaid) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_NE(full, nullptr);
  context_.out = full;
  EXPECT_EQ(Chat("Hello\n").error().kind, ErrorKind::kResources);
  interrupted_ = false;
  EXPECT_EQ(Run("", {"Hello"}).error().kind, ErrorKind::kResources);
  context_.out = out_;
  std::fclose(full);
  context_.flags["conversation"] = Path("none/talk.moor");
  EXPECT_EQ(Chat("Hello\n").error().kind, ErrorKind::kNotFound);
}

TEST_F(TalkCommandsTest, CommandsWorkOnAPipe) {
  const Status status =
      Chat("/set temperature 0.5\n/system Be brief.\n/system\nHello\n/memory\n/stats\n/save " +
           Path("kept.moor") + "\n/help\n/exit\nnever said\n");
  ASSERT_TRUE(status.ok()) << status.error().Message();
  EXPECT_EQ(context_.settings.sampling.temperature, 0.5);
  const std::string out = Out();
  EXPECT_THAT(out, HasSubstr("Be brief."));
  EXPECT_THAT(out, HasSubstr("Remembers"));
  EXPECT_THAT(out, HasSubstr("/system [TEXT]"));
  EXPECT_TRUE(std::filesystem::exists(Path("kept.moor")));
  EXPECT_EQ(Chat("/save " + Path("kept.moor") + "\n").error().kind, ErrorKind::kUsage);
  EXPECT_THAT(Chat("/set temprature 1\n").error().Message(), HasSubstr("temperature"));
  EXPECT_EQ(Chat("/set top_p 7\n").error().kind, ErrorKind::kUsage);
}

TEST_F(TalkCommandsTest, NewForgetsAndStatsCount) {
  context_.global.json = true;
  ASSERT_TRUE(Chat("One\n/stats\n/new\n/stats\nTwo\n").ok());
  const std::vector<Json> lines = JsonLines();
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1]["log_tokens"], lines[0]["log_tokens"]);
  EXPECT_EQ(lines[2]["log_tokens"], 0);
  EXPECT_EQ(lines[3]["turn"], 1);
}

TEST_F(TalkCommandsTest, AnInterruptEndsAPipedChat) {
  interrupted_ = true;
  const Status status = Chat("Hello\n");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kInterrupted);
}

TEST_F(TalkCommandsTest, RunTakesThePromptFromArgumentOrInput) {
  context_.global.json = true;
  ASSERT_TRUE(Run("", {"Hello"}).ok());
  ASSERT_TRUE(Run("Hello\n").ok());
  ASSERT_TRUE(Run("Hello\n", {"-"}).ok());
  const std::vector<Json> replies = JsonLines();
  ASSERT_EQ(replies.size(), 3U);
  for (const Json& reply : replies) {
    EXPECT_EQ(reply["text"], replies[0]["text"]);
    EXPECT_EQ(reply["prompt_tokens"], replies[0]["prompt_tokens"]);
  }
}

TEST_F(TalkCommandsTest, RunRefusesWhatIsNoPrompt) {
  EXPECT_EQ(Run("").error().kind, ErrorKind::kUsage);
  EXPECT_EQ(Run(" \n \n").error().kind, ErrorKind::kUsage);
  const Status binary =
      Run(std::string("\x7f"
                      "ELF\0\0",
                      6));
  EXPECT_THAT(binary.error().Message(), HasSubstr("NUL"));
  const Status giant = Run(std::string(kLongestMessageBytes + 2, 'a'));
  EXPECT_THAT(giant.error().Message(), HasSubstr("16777216"));
  EXPECT_EQ(Out(), "");
}

TEST_F(TalkCommandsTest, RunRawReadsExactlyTheText) {
  context_.global.json = true;
  context_.flags["raw"] = "true";
  ASSERT_TRUE(Run("", {"abc"}).ok());
  EXPECT_LE(JsonLines()[0]["prompt_tokens"], 4);
}

TEST_F(TalkCommandsTest, RunGivesLogprobs) {
  context_.flags["logprobs"] = "3";
  EXPECT_EQ(Run("", {"Hello"}).error().kind, ErrorKind::kUsage);  // without --json
  context_.global.json = true;
  ASSERT_TRUE(Run("", {"Hello"}).ok());
  const Json reply = JsonLines()[0];
  const Json& content = reply["logprobs"]["content"];
  ASSERT_EQ(content.size(), reply["generated_tokens"].get<size_t>());
  for (const Json& entry : content) {
    ASSERT_EQ(entry["top_logprobs"].size(), 3U);
    // Greedy: the token is the likeliest.
    EXPECT_EQ(entry["id"], entry["top_logprobs"][0]["id"]);
    EXPECT_LE(entry["logprob"], 0.0);
    EXPECT_GE(entry["top_logprobs"][0]["logprob"], entry["top_logprobs"][1]["logprob"]);
  }
  for (const char* bad : {"0", "21", "x", "3x", "-1", ""}) {
    context_.flags["logprobs"] = bad;
    EXPECT_EQ(Run("", {"Hello"}).error().kind, ErrorKind::kUsage) << bad;
  }
}

TEST_F(TalkCommandsTest, RunHoldsALongPromptInASmallWindow) {
  context_.settings.window_size = 64;
  context_.global.json = true;
  std::string text;
  for (int i = 0; i < 300; ++i) text += "word ";
  const Status status = Run(text);
  ASSERT_TRUE(status.ok()) << status.error().Message();
  const Json reply = JsonLines()[0];
  EXPECT_GT(reply["log_tokens"], 300);
  EXPECT_EQ(reply["window"]["anchors"].get<int>() + reply["window"]["recent"].get<int>(), 64);
  EXPECT_GT(reply["forgotten_tokens"], 200);
}

TEST_F(TalkCommandsTest, ConversationsTravelAsMessages) {
  std::ofstream(Path("in.json"))
      << R"({"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"One"},)"
      << R"({"role":"assistant","content":"1"},{"role":"user","content":"Two"},)"
      << R"({"role":"assistant","content":"2"}]})";
  context_.flags = {{"output", Path("out.moor")}};
  const Status imported = Do(ConvImportCommand(), {Path("in.json")});
  ASSERT_TRUE(imported.ok()) << imported.error().Message();
  EXPECT_THAT(Out(), HasSubstr("2 messages of the user"));
  context_.flags.clear();
  ASSERT_TRUE(Do(ConvExportCommand(), {Path("out.moor")}).ok());
  const Json exported = Json::parse(Out());
  std::ifstream in(Path("in.json"));
  EXPECT_EQ(exported["messages"], Json::parse(in)["messages"]);
  // It can be talked on with.
  context_.flags = {{"conversation", Path("out.moor")}};
  context_.global.json = true;
  ASSERT_TRUE(Chat("Three\n").ok());
  EXPECT_EQ(JsonLines()[0]["turn"], 3);
}

TEST_F(TalkCommandsTest, CopiesAreVerifiedAndReplaceNothingUnasked) {
  context_.flags = {{"conversation", Path("a.moor")}};
  ASSERT_TRUE(Chat("One\n").ok());
  context_.flags = {{"output", Path("b.moor")}};
  ASSERT_TRUE(Do(ConvExportCommand(), {Path("a.moor")}).ok());
  EXPECT_EQ(Do(ConvImportCommand(), {Path("a.moor")}).error().kind, ErrorKind::kUsage);
  context_.flags["replace"] = "true";
  context_.global.yes = true;
  ASSERT_TRUE(Do(ConvImportCommand(), {Path("a.moor")}).ok());
  context_.flags.clear();
  Out();
  context_.global.json = true;
  ASSERT_TRUE(Do(ConvVerifyCommand(), {Path("b.moor")}).ok());
  EXPECT_EQ(JsonLines()[0]["ok"], true);

  std::fstream file(Path("b.moor"), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(1000);
  file.put('!');
  file.close();
  EXPECT_EQ(Do(ConvVerifyCommand(), {Path("b.moor")}).error().kind, ErrorKind::kFaultFound);
  EXPECT_EQ(Do(ConvVerifyCommand(), {Path("none.moor")}).error().kind, ErrorKind::kNotFound);
  context_.flags = {{"output", Path("c.moor")}};
  EXPECT_EQ(Do(ConvImportCommand(), {Path("b.moor")}).error().kind, ErrorKind::kModelInvalid);
  EXPECT_FALSE(std::filesystem::exists(Path("c.moor")));
}

}  // namespace
}  // namespace mooring
