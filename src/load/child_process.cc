#include "load/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>

#include "base/files.h"
#include "base/owned_descriptor.h"

namespace mooring {
namespace {

constexpr size_t kTailBytes = 4096;
constexpr int kPauseMilliseconds = 100;
constexpr std::chrono::seconds kGrace(3);

Error ChildError(const std::string& program, int error_number) {
  return Error{.kind = KindOfErrno(error_number),
               .what = "cannot run another program",
               .where = program,
               .found = ErrnoText(error_number)};
}

// Our environment with `changes`, as "NAME=value" texts.
std::vector<std::string> EnvironmentWith(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> texts;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) texts.emplace_back(text);
  }
  for (const auto& [name, value] : changes) texts.push_back(fmt::format("{}={}", name, value));
  return texts;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

// posix_spawnp with both outputs going to `output`; 0 or an errno.
int Spawn(std::vector<std::string> arguments, std::vector<std::string> environment, int output,
          pid_t& child) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  // A program that ignores or blocks signals would hand that on.
  sigset_t set;
  sigfillset(&set);
  posix_spawnattr_setsigdefault(&attributes, &set);
  sigemptyset(&set);
  posix_spawnattr_setsigmask(&attributes, &set);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  const int error_number = ::posix_spawnp(&child, arguments[0].c_str(), &actions, &attributes,
                                          Pointers(arguments).data(), Pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error_number;
}

// Appends what can be read without waiting; keeps the tail.
void Drain(int descriptor, std::string& tail) {
  std::array<char, kTailBytes> piece{};
  for (;;) {
    const ssize_t count = ::read(descriptor, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    tail.append(piece.data(), static_cast<size_t>(count));
    if (tail.size() > kTailBytes) tail.erase(0, tail.size() - kTailBytes);
  }
}

// True when the child has ended; `status` as waitpid gives it, or -1 when somebody else took it.
bool HasEnded(pid_t child, int& status) {
  const pid_t ended = ::waitpid(child, &status, WNOHANG);
  if (ended < 0 && errno != EINTR) status = -1;
  return ended == child || (ended < 0 && errno != EINTR);
}

void Interrupt(pid_t child) {
  int status = 0;
  ::kill(child, SIGINT);
  const auto deadline = std::chrono::steady_clock::now() + kGrace;
  while (std::chrono::steady_clock::now() < deadline) {
    if (HasEnded(child, status)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kPauseMilliseconds / 4));
  }
  ::kill(child, SIGKILL);
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

Result<ChildResult> RunChild(const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment,
                             const std::function<bool()>& keep_running) {
  CHECK(!arguments.empty());
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return ChildError(arguments[0], errno);
  const OwnedDescriptor output(ends[0]);
  OwnedDescriptor input(ends[1]);
  ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  pid_t child = 0;
  const int error_number = Spawn(arguments, EnvironmentWith(environment), input.get(), child);
  if (error_number != 0) return ChildError(arguments[0], error_number);
  (void)input.Close();

  ChildResult result;
  int status = 0;
  bool output_open = true;
  while (!HasEnded(child, status)) {
    if (keep_running && !keep_running()) {
      Interrupt(child);
      return Error{.kind = ErrorKind::kInterrupted, .what = "stopped", .where = arguments[0]};
    }
    pollfd waited{.fd = output_open ? output.get() : -1, .events = POLLIN, .revents = 0};
    ::poll(&waited, 1, kPauseMilliseconds);
    // After the last writer is gone poll would return at once, for ever.
    if ((waited.revents & (POLLHUP | POLLERR)) != 0) output_open = false;
    Drain(output.get(), result.output_tail);
  }
  Drain(output.get(), result.output_tail);
  if (status == -1) return ChildError(arguments[0], ECHILD);
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace mooring
