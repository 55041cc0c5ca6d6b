#include "apps/signals.h"

#include <termios.h>
#include <unistd.h>

#include <csignal>

#include "base/result.h"

namespace mooring {
namespace {

std::atomic<bool> g_interrupted = false;
bool g_terminal_known = false;
termios g_terminal;

static_assert(std::atomic<bool>::is_always_lock_free, "a handler must not wait");

// tcsetattr and _exit are among the few calls that a handler may make.
[[noreturn]] void EndNow(int code) {
  if (g_terminal_known) (void)tcsetattr(STDIN_FILENO, TCSANOW, &g_terminal);
  _exit(code);
}

void OnInterrupt(int /*signal*/) {
  if (g_interrupted.exchange(true)) EndNow(static_cast<int>(ErrorKind::kInterrupted));
}

void OnTerminate(int signal) { EndNow(128 + signal); }

void Handle(int signal, void (*handler)(int), int flags) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  sigemptyset(&action.sa_mask);
  (void)sigaction(signal, &action, nullptr);
}

}  // namespace

std::atomic<bool>* InstallSignalHandlers() {
  g_terminal_known = tcgetattr(STDIN_FILENO, &g_terminal) == 0;
  // Without SA_RESTART: a command that waits for input wakes up and sees the flag.
  Handle(SIGINT, OnInterrupt, 0);
  Handle(SIGTERM, OnTerminate, 0);
  Handle(SIGPIPE, SIG_IGN, 0);
  // Writing beyond a limit on file sizes is then an error like a full disk, not the end.
  Handle(SIGXFSZ, SIG_IGN, 0);
  return &g_interrupted;
}

}  // namespace mooring
