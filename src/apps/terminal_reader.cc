// Line editing with libedit. Bytes come in through ReadChar, which knows three things that libedit
// does not: Ctrl-C as an answer, bracketed paste, and UTF-8 whatever the locale says.
//
// A line feed inside a message is shown and edited as U+240A, a tab as U+2409, since libedit's line
// is one line; both become themselves again when the line is done.

#include <fmt/format.h>
#include <histedit.h>
#include <langinfo.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <csignal>
#include <deque>
#include <string>
#include <utility>

#include "apps/line_reader.h"
#include "apps/output.h"
#include "text/utf8.h"

namespace mooring {
namespace {

constexpr int kPollMilliseconds = 200;
constexpr int kEscapeMilliseconds = 30;  // the rest of a key's sequence comes at once
constexpr int kHistorySize = 1000;
constexpr wchar_t kShownLineFeed = L'\u240A';
constexpr wchar_t kShownTab = L'\u2409';
constexpr wchar_t kPromptEscape = L'\1';
constexpr unsigned char kCtrlC = 0x03;
constexpr unsigned char kCtrlZ = 0x1A;
constexpr unsigned char kEscape = 0x1B;
constexpr unsigned char kDelete = 0x7F;
constexpr std::string_view kPasteOpens = "\x1b[200~";
constexpr std::string_view kPasteCloses = "\x1b[201~";
constexpr std::string_view kPasteModeOn = "\x1b[?2004h";
constexpr std::string_view kPasteModeOff = "\x1b[?2004l";

std::wstring Widen(std::string_view text) {
  std::wstring wide;
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    wide += c.state == Utf8Char::State::kWhole ? static_cast<wchar_t>(c.code_point) : L'\uFFFD';
    text.remove_prefix(c.size);
  }
  return wide;
}

std::string Narrow(std::wstring_view wide) {
  std::string text;
  for (const wchar_t c : wide) {
    const auto code = static_cast<uint32_t>(c);
    const bool scalar = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    AppendUtf8(scalar ? code : 0xFFFD, &text);
  }
  return text;
}

std::wstring Replaced(std::wstring text, wchar_t from, wchar_t to) {
  for (wchar_t& c : text) {
    if (c == from) c = to;
  }
  return text;
}

// As it is edited, and as it was meant.
std::wstring Shown(std::string_view message) {
  return Replaced(Replaced(Widen(message), L'\n', kShownLineFeed), L'\t', kShownTab);
}
std::string Meant(std::wstring line) {
  return Narrow(Replaced(Replaced(std::move(line), kShownLineFeed, L'\n'), kShownTab, L'\t'));
}

class TerminalReader : public LineReader {
 public:
  TerminalReader(const TerminalOptions& options, HistoryFile file, std::atomic<bool>* interrupted)
      : options_(options), file_(std::move(file)), interrupted_(interrupted) {}
  ~TerminalReader() override {
    if (history_ != nullptr) history_wend(history_);
    if (edit_ != nullptr) el_end(edit_);
  }

  Status SetUp() {
    // libedit draws by the locale; without a UTF-8 one it would spell every other character.
    (void)std::setlocale(LC_CTYPE, "");
    if (std::string_view(::nl_langinfo(CODESET)) != "UTF-8") {
      (void)std::setlocale(LC_CTYPE, "C.UTF-8");
    }
    edit_ = el_init("mooring", options_.in, options_.out, options_.out);
    history_ = history_winit();
    if (edit_ == nullptr || history_ == nullptr) {
      return Error{.what = "cannot use the terminal for line editing"};
    }
    el_wset(edit_, EL_CLIENTDATA, this);
    el_wset(edit_, EL_EDITOR, L"emacs");
    el_wset(edit_, EL_PROMPT_ESC, &TerminalReader::PromptOf, kPromptEscape);
    el_wset(edit_, EL_GETCFN, &TerminalReader::ReadCharOf);
    // With ISIG off while a line is edited, Ctrl-C and Ctrl-Z are bytes that ReadChar answers. With
    // INLCR (which libedit turns on) and ICRNL off, the two bytes of a pasted "\r\n" stay
    // different.
    el_wset(edit_, EL_SETTY, L"-d", L"-isig", nullptr);
    el_wset(edit_, EL_SETTY, L"-d", L"-inlcr", L"-icrnl", nullptr);
    el_wset(edit_, EL_BIND, L"^R", L"em-inc-search-prev", nullptr);
    el_wset(edit_, EL_BIND, L"^W", L"ed-delete-prev-word", nullptr);
    history_w(history_, &event_, H_SETSIZE, kHistorySize);
    el_wset(edit_, EL_HIST, history_w, history_);
    for (const std::string& line : file_.Load()) {
      history_w(history_, &event_, H_ENTER, Widen(line).c_str());
      last_ = line;
    }
    return {};
  }

  Result<InputLine> Read(std::string_view prompt) override {
    prompt_ = Widen(prompt);
    if (options_.color && !prompt_.empty()) {
      // libedit swallows a sequence at the very end of a prompt, so the last character stands
      // behind the one that ends the bold.
      const std::wstring mark(1, kPromptEscape);
      prompt_.insert(prompt_.size() - 1, mark + L"\x1b[0m" + mark);
      prompt_.insert(0, mark + L"\x1b[1m" + mark);
    }
    interrupted_here_ = false;
    in_paste_ = false;
    queue_.clear();
    el_resize(edit_);
    // libedit takes the terminal over at its first read, after it has drawn the prompt: a Ctrl-D or
    // a paste that came in between would still be the line discipline's.
    el_wset(edit_, EL_PREP_TERM, 1);
    Emit(kPasteModeOn);
    int count = 0;
    const wchar_t* line = el_wgets(edit_, &count);
    Emit(kPasteModeOff);
    if (interrupted_here_) {
      el_wset(edit_, EL_PREP_TERM, 0);
      Emit("^C\n");
      return InputLine{InputLine::Kind::kInterrupted};
    }
    if (line == nullptr || count <= 0) {
      Emit("\n");
      return InputLine{InputLine::Kind::kEnd};
    }
    std::wstring text(line, static_cast<size_t>(count));
    while (!text.empty() && (text.back() == L'\n' || text.back() == L'\r')) text.pop_back();
    std::string message = Meant(std::move(text));
    MOORING_RETURN_IF_ERROR(CheckMessageText(message, "input"));
    return InputLine{InputLine::Kind::kText, std::move(message)};
  }

  void Remember(std::string_view message) override {
    const std::wstring shown = Shown(message);
    std::string line = Narrow(shown);
    if (line.empty() || line == last_) return;
    history_w(history_, &event_, H_ENTER, shown.c_str());
    file_.Append(line);
    last_ = std::move(line);
  }

 private:
  enum class ByteRead : uint8_t { kByte, kEnd, kInterrupted, kNothing };

  static TerminalReader& Of(EditLine* edit) {
    void* self = nullptr;
    el_wget(edit, EL_CLIENTDATA, &self);
    return *static_cast<TerminalReader*>(self);
  }
  static wchar_t* PromptOf(EditLine* edit) { return Of(edit).prompt_.data(); }
  static int ReadCharOf(EditLine* edit, wchar_t* out) { return Of(edit).ReadChar(out); }

  void Emit(std::string_view text) {
    PrintText(options_.out, text);
    (void)std::fflush(options_.out);
  }

  bool Interrupted() const { return interrupted_ != nullptr && interrupted_->load(); }

  // Waits for a byte: for ever, or (`briefly`) only as long as the rest of a key takes.
  ByteRead ReadByte(bool briefly, unsigned char* byte) {
    const int descriptor = fileno(options_.in);
    for (;;) {
      if (Interrupted()) {
        interrupted_->store(false);
        return ByteRead::kInterrupted;
      }
      pollfd wait = {.fd = descriptor, .events = POLLIN, .revents = 0};
      const int ready = ::poll(&wait, 1, briefly ? kEscapeMilliseconds : kPollMilliseconds);
      if (ready == 0 && briefly) return ByteRead::kNothing;
      if (ready <= 0) continue;
      const ssize_t count = ::read(descriptor, byte, 1);
      if (count == 1) return ByteRead::kByte;
      if (count == 0 || errno != EINTR) return ByteRead::kEnd;
    }
  }

  // What libedit calls: 1 and a character, 0 at the end, -1 to give up the line.
  int ReadChar(wchar_t* out) {
    for (;;) {
      if (!queue_.empty()) {
        *out = queue_.front();
        queue_.pop_front();
        return 1;
      }
      unsigned char byte = 0;
      const ByteRead read = ReadByte(false, &byte);
      if (read == ByteRead::kEnd) return 0;
      if (read == ByteRead::kInterrupted || (byte == kCtrlC && !in_paste_)) {
        interrupted_here_ = true;
        errno = EINTR;
        return -1;
      }
      if (byte == kCtrlZ && !in_paste_) {
        Suspend();
      } else if (byte == kEscape) {
        TakeEscape();
      } else if (in_paste_) {
        TakePasted(byte);
      } else {
        TakeCharacter(byte);
      }
    }
  }

  // The rest of a UTF-8 character, or a byte that is part of none.
  void TakeCharacter(unsigned char first) {
    std::string bytes(1, static_cast<char>(first));
    while (ReadUtf8(bytes).state == Utf8Char::State::kIncomplete) {
      unsigned char next = 0;
      if (ReadByte(true, &next) != ByteRead::kByte) break;
      bytes += static_cast<char>(next);
    }
    for (const wchar_t c : Widen(bytes)) queue_.push_back(c);
  }

  // After an escape byte: the start or end of a paste, Alt-Enter, or a key that libedit knows.
  void TakeEscape() {
    const std::string_view wanted = in_paste_ ? kPasteCloses : kPasteOpens;
    std::string bytes(1, static_cast<char>(kEscape));
    while (bytes.size() < wanted.size()) {
      unsigned char next = 0;
      if (ReadByte(true, &next) != ByteRead::kByte) break;
      bytes += static_cast<char>(next);
      if (!wanted.starts_with(bytes)) break;
    }
    if (bytes == wanted) {
      in_paste_ = !in_paste_;
    } else if (in_paste_) {
      for (const char c : std::string_view(bytes).substr(1)) {
        TakePasted(static_cast<unsigned char>(c));
      }
    } else if (bytes == "\x1b\r" || bytes == "\x1b\n") {
      queue_.push_back(kShownLineFeed);
    } else {
      for (const wchar_t c : Widen(bytes)) queue_.push_back(c);
    }
  }

  // Pasted text is only text: no key, no command, no control character.
  void TakePasted(unsigned char byte) {
    const bool second_half = byte == '\n' && after_return_;
    after_return_ = byte == '\r';
    if (second_half) return;
    if (byte == '\r' || byte == '\n') {
      queue_.push_back(kShownLineFeed);
    } else if (byte == '\t') {
      queue_.push_back(kShownTab);
    } else if (byte >= ' ' && byte != kDelete) {
      TakeCharacter(byte);
    }
  }

  void Suspend() {
    Emit(kPasteModeOff);
    el_wset(edit_, EL_PREP_TERM, 0);
    (void)std::raise(SIGTSTP);
    el_wset(edit_, EL_PREP_TERM, 1);
    Emit(kPasteModeOn);
    el_wset(edit_, EL_REFRESH);
  }

  TerminalOptions options_;
  HistoryFile file_;
  std::atomic<bool>* interrupted_;
  EditLine* edit_ = nullptr;
  HistoryW* history_ = nullptr;
  HistEventW event_ = {};
  std::wstring prompt_;
  std::deque<wchar_t> queue_;  // characters that were read and not asked for yet
  bool in_paste_ = false;
  bool after_return_ = false;
  bool interrupted_here_ = false;
  std::string last_;  // the newest line of the history
};

}  // namespace

Result<std::unique_ptr<LineReader>> MakeTerminalReader(const TerminalOptions& options,
                                                       HistoryFile history,
                                                       std::atomic<bool>* interrupted) {
  auto reader = std::make_unique<TerminalReader>(options, std::move(history), interrupted);
  MOORING_RETURN_IF_ERROR(reader->SetUp());
  return std::unique_ptr<LineReader>(std::move(reader));
}

}  // namespace mooring
