// `chat` on a real (pseudo) terminal: what keys, pastes and Ctrl-C do.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "apps/dispatch.h"
#include "apps/memory_view.h"
#include "apps/reply_output.h"
#include "apps/signals.h"
#include "talk/conversation_file.h"

namespace mooring {
namespace {

using testing::HasSubstr;
using testing::Not;

// The end of a bold prompt: what follows it, the answer above all, is not bold.
constexpr std::string_view kPrompt = ">\x1b[0m ";

// The program in a child process that has a terminal of its own; this side is the keyboard.
class TerminalTest : public testing::Test {
 protected:
  void SetUp() override {
    home_ = std::filesystem::temp_directory_path() / fmt::format("terminal_test_{}", ::getpid());
    std::filesystem::create_directories(home_);
  }
  void TearDown() override {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      ::waitpid(child_, nullptr, 0);
    }
    if (terminal_ >= 0) ::close(terminal_);
    std::filesystem::remove_all(home_);
  }

  void Start(std::vector<std::string> more, std::string_view model = "f32-d32") {
    std::vector<std::string> arguments = {
        "chat",          fmt::format("{}/tests/golden/tiny/{}.gguf", MOORING_SOURCE_DIR, model),
        "--threads",     "1",
        "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    winsize size = {.ws_row = 24, .ws_col = 100, .ws_xpixel = 0, .ws_ypixel = 0};
    child_ = ::forkpty(&terminal_, nullptr, nullptr, &size);
    ASSERT_GE(child_, 0);
    if (child_ != 0) return;
    Program program;
    program.environment = {{"HOME", home_.string()}, {"TERM", "xterm"}, {"LANG", "C.UTF-8"}};
    ::setenv("TERM", "xterm", 1);
    ::setenv("HOME", home_.c_str(), 1);
    program.interrupted = InstallSignalHandlers();
    program.system_config = "";
    const int code = RunMooring(arguments, program);
    std::fflush(nullptr);
    ::_exit(code);
  }

  void Type(std::string_view text) const {
    ASSERT_EQ(::write(terminal_, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  using Clock = std::chrono::steady_clock;
  static Clock::time_point Deadline() { return Clock::now() + std::chrono::seconds(30); }

  // What is shown within a tenth of a second; false when the program has closed the terminal.
  bool ReadSome() {
    pollfd wait = {.fd = terminal_, .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, 100) <= 0) return true;
    char bytes[4096];
    const ssize_t count = ::read(terminal_, bytes, sizeof(bytes));
    if (count <= 0) return false;
    shown_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  // Reads what the program shows until it has shown `text`; false after half a minute.
  bool WaitFor(std::string_view text) {
    for (const auto end = Deadline(); Clock::now() < end;) {
      const size_t at = shown_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (!ReadSome()) break;
    }
    return shown_.find(text, seen_) != std::string::npos;
  }

  // Reads until `bytes` more have been shown; false after half a minute.
  bool WaitForMore(size_t bytes) {
    const size_t wanted = shown_.size() + bytes;
    for (const auto end = Deadline(); Clock::now() < end && shown_.size() < wanted;) {
      if (!ReadSome()) break;
    }
    return shown_.size() >= wanted;
  }

  // Drains the terminal until the program has closed it; -1 when it does not end.
  int ExitCode() {
    for (const auto end = Deadline(); Clock::now() < end && ReadSome();) {
    }
    int status = 0;
    for (const auto end = Deadline(); Clock::now() < end;) {
      if (::waitpid(child_, &status, WNOHANG) == child_) {
        child_ = -1;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      ::usleep(1000);
    }
    return -1;
  }

  std::filesystem::path home_;
  int terminal_ = -1;
  pid_t child_ = -1;
  std::string shown_;
  size_t seen_ = 0;
};

TEST_F(TerminalTest, GreetsAnswersAndLeavesOnCtrlD) {
  Start({"--max-tokens", "8"});
  ASSERT_TRUE(WaitFor("policy recall")) << shown_;
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("Hello\r");
  ASSERT_TRUE(WaitFor("[stopped: length]")) << shown_;
  ASSERT_TRUE(WaitFor("tokens/s")) << shown_;
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("/memry\r");
  ASSERT_TRUE(WaitFor("did you mean /memory?")) << shown_;
  Type("/memory\r");
  ASSERT_TRUE(WaitFor("Remembers")) << shown_;
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("\x04");
  EXPECT_EQ(ExitCode(), 0);
  struct stat info {};
  const std::filesystem::path history = home_ / ".local/state/mooring/history";
  ASSERT_EQ(::stat(history.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  std::ifstream file(history);
  std::string first;
  std::getline(file, first);
  EXPECT_EQ(first, "Hello");
}

TEST_F(TerminalTest, APasteOfManyLinesIsOneMessage) {
  const std::string path = (home_ / "talk.moor").string();
  Start({"--max-tokens", "4", "-c", path});
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("\x1b[200~first\r\nsecond\tx\n/exit\x03\x1b[201~");
  ASSERT_TRUE(WaitFor("/exit")) << shown_;
  Type(" caf\xC3\xA9\r");
  ASSERT_TRUE(WaitFor("in memory")) << shown_;
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("\"\"\"\rone\rtwo\r\"\"\"\r");
  ASSERT_TRUE(WaitFor("in memory")) << shown_;
  Type("/exit\r");
  EXPECT_EQ(ExitCode(), 0);
  const auto text = ExportConversationText(path);
  ASSERT_TRUE(text.ok()) << text.error().Message();
  const Json messages = Json::parse(*text)["messages"];
  ASSERT_EQ(messages.size(), 4U) << *text;
  EXPECT_EQ(messages[0]["content"], "first\nsecond\tx\n/exit caf\xC3\xA9");
  EXPECT_EQ(messages[2]["content"], "one\ntwo");
}

TEST_F(TerminalTest, CtrlCStopsTheAnswerAndNotTheProgram) {
  // With the plain kernels, so everywhere, this model goes on for thousands of tokens.
  Start({"--max-tokens", "100000000", "--isa", "ref"}, "f16-d64");
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("Hello\r");
  ASSERT_TRUE(WaitForMore(200)) << shown_;  // the answer is well under way
  Type("\x03");
  ASSERT_TRUE(WaitFor("[stopped: cancelled]")) << shown_.substr(0, 2000);
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("half a line\x03");
  ASSERT_TRUE(WaitFor("once more")) << shown_;
  ASSERT_TRUE(WaitFor(kPrompt));
  Type("\x03");
  EXPECT_EQ(ExitCode(), 130);
}

TEST(MemoryViewTest, DrawsWhatThereIs) {
  const StripStyle plain = {.cells = 12, .color = false, .unicode = false};
  EXPECT_EQ(MemoryStrip({.log_tokens = 0, .capacity = 64}, plain), "[            ]");
  EXPECT_EQ(MemoryStrip({.log_tokens = 8, .capacity = 64, .anchors = 4, .recent = 4}, plain),
            "[##==========]");
  EXPECT_EQ(MemoryStrip({.log_tokens = 1000000, .capacity = 64, .anchors = 4, .recent = 60}, plain),
            "[#..........=]");
  const MemoryView view = {.log_tokens = 41233, .capacity = 1024, .anchors = 4, .recent = 1020};
  EXPECT_EQ(MemorySentence(view),
            "Remembers 1,024 of 41,233 tokens: 4 anchors, 1,020 recent; 40,209 out of sight");
}

TEST(ReplyOutputTest, KeepsModelTextFromSteeringTheTerminal) {
  EXPECT_EQ(TerminalText("a\tb\nc"), "a\tb\nc");
  EXPECT_EQ(TerminalText("\x1b[2J"), "\xEF\xBF\xBD[2J");
  EXPECT_EQ(TerminalText("\xC2\x9B"
                         "2J\x7F"),
            "\xEF\xBF\xBD"
            "2J\xEF\xBF\xBD");
  EXPECT_EQ(TerminalText("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB"),
            "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB");
}

}  // namespace
}  // namespace mooring
