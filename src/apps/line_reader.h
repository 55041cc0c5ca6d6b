// Where the user's messages come from: a terminal with line editing and history, or a pipe.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_LINE_READER_H_
#define MOORING_APPS_LINE_READER_H_

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "apps/state_folder.h"
#include "base/result.h"

namespace mooring {

// The longest text that is taken as one message.
inline constexpr size_t kLongestMessageBytes = size_t{16} << 20;

// kUsage for text with NUL bytes (it is a file of another kind) or longer than the limit; `where`
// names its source.
Status CheckMessageText(std::string_view text, std::string_view where);

struct InputLine {
  enum class Kind : uint8_t {
    kText,
    kEnd,          // Ctrl-D, or the end of the input
    kInterrupted,  // Ctrl-C: what was typed so far is gone
  };
  Kind kind = Kind::kEnd;
  std::string text = {};  // without its line end; may hold line feeds when it was pasted
};

class LineReader {
 public:
  virtual ~LineReader() = default;
  // Waits for a line. `prompt` is shown where there is someone to see it.
  virtual Result<InputLine> Read(std::string_view prompt) = 0;
  // Puts a whole message into the history.
  virtual void Remember(std::string_view /*message*/) {}
};

// Reads lines from `descriptor`, which stays open. A set `*interrupted` (may be null) ends the
// wait.
std::unique_ptr<LineReader> MakePipeReader(int descriptor, std::atomic<bool>* interrupted);

// Everything up to the end of the input, less one final line end. kInterrupted, or as
// CheckMessageText.
Result<std::string> ReadAllInput(int descriptor, std::atomic<bool>* interrupted);

struct TerminalOptions {
  std::FILE* in = stdin;
  std::FILE* out = stdout;  // where the line is drawn
  bool color = false;
};

// Line editing on a terminal. Pasted text is one message, line feeds and all; Alt-Enter adds a line
// feed. While it waits, Ctrl-C is a key; `*interrupted` is cleared when someone else sets it.
// kFailed when the terminal cannot be used.
Result<std::unique_ptr<LineReader>> MakeTerminalReader(const TerminalOptions& options,
                                                       HistoryFile history,
                                                       std::atomic<bool>* interrupted);

}  // namespace mooring

#endif  // MOORING_APPS_LINE_READER_H_
