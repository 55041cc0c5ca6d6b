#include "apps/output.h"

#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace mooring {
namespace {

// A line for each of them is enough on a terminal and in a log.
constexpr std::chrono::milliseconds kTerminalPause(100);
constexpr std::chrono::milliseconds kPlainPause(1000);
constexpr std::string_view kClearLine = "\r\x1b[K";

}  // namespace

void PrintText(std::FILE* file, std::string_view text) {
  // A short write sets the stream's error flag, which is read in the end.
  (void)std::fwrite(text.data(), 1, text.size(), file);
}

std::string JsonText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void PrintJson(std::FILE* file, const Json& json) { PrintText(file, JsonText(json) + "\n"); }

bool IsTerminal(std::FILE* file) {
  const int descriptor = fileno(file);
  return descriptor >= 0 && isatty(descriptor) != 0;
}

std::string SafeText(std::string_view text, bool keep_lines) {
  std::string safe;
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t code = -1;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const auto length =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    const auto category = length > 0 ? utf8proc_category(code) : UTF8PROC_CATEGORY_CC;
    const bool control = category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF;
    const size_t step = length > 0 ? static_cast<size_t>(length) : 1;
    if (!control || (keep_lines && (code == '\n' || code == '\t'))) {
      safe += text.substr(at, step);
    } else {
      for (size_t i = at; i < at + step; ++i) {
        safe += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
      }
    }
    at += step;
  }
  return safe;
}

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kUnits = {"kB", "MB", "GB", "TB", "PB"};
  if (bytes < 1000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1000.0;
  size_t unit = 0;
  while (value >= 999.95 && unit + 1 < kUnits.size()) {
    value /= 1000.0;
    ++unit;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string Grouped(int64_t number) {
  std::string digits = fmt::format("{}", number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

size_t DisplayWidth(std::string_view text) {
  size_t width = 0;
  size_t at = 0;
  while (at < text.size()) {
    utf8proc_int32_t code = -1;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at);
    const auto length =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(text.size() - at), &code);
    if (length <= 0) {
      ++width;
      ++at;
      continue;
    }
    width += static_cast<size_t>(std::max(0, utf8proc_charwidth(code)));
    at += static_cast<size_t>(length);
  }
  return width;
}

std::string Bold(std::string_view text, bool color) {
  return color ? fmt::format("\x1b[1m{}\x1b[0m", text) : std::string(text);
}

void Table::Print(std::FILE* file, bool color) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < rows_[r].size(); ++i) {
      line += rows_[r][i];
      const bool last = i + 1 == rows_[r].size();
      if (!last) line.append(widths[i] - DisplayWidth(rows_[r][i]) + 2, ' ');
    }
    PrintText(file, Bold(line, color && r == 0) + "\n");
  }
}

std::string ProgressText(uint64_t done, uint64_t total, double per_second, ProgressUnit unit) {
  const auto amount = [unit](uint64_t count) {
    return unit == ProgressUnit::kBytes ? HumanBytes(count)
                                        : Grouped(static_cast<int64_t>(count)) + " tokens";
  };
  std::string text;
  if (total > 0) {
    const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
    text = fmt::format("{:3.0f}%  {} of {}", share * 100.0, amount(done), amount(total));
  } else {
    text = amount(done);
  }
  if (per_second < 1.0) return text;
  text += fmt::format("  {}/s", amount(static_cast<uint64_t>(per_second)));
  if (total > done) {
    const double seconds = static_cast<double>(total - done) / per_second;
    const auto left = static_cast<int64_t>(std::min(seconds, 359999.0) + 0.5);
    text += left >= 3600
                ? fmt::format("  {}:{:02}:{:02} left", left / 3600, left / 60 % 60, left % 60)
                : fmt::format("  {}:{:02} left", left / 60, left % 60);
  }
  return text;
}

ProgressLine::ProgressLine(std::FILE* file, bool shown, ProgressUnit unit)
    : file_(file), shown_(shown), unit_(unit), terminal_(shown && IsTerminal(file)) {}

ProgressLine::~ProgressLine() {
  if (drawn_ && terminal_) {
    PrintText(file_, kClearLine);
    (void)std::fflush(file_);
  }
}

void ProgressLine::Update(std::string_view what, uint64_t done, uint64_t total) {
  if (!shown_) return;
  const auto now = Clock::now();
  const bool fresh = what != what_;
  if (fresh) {
    what_ = what;
    start_ = now;
    start_done_ = done;
  } else if (now - last_ < (terminal_ ? kTerminalPause : kPlainPause)) {
    return;
  }
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const bool measured = seconds > 0.5 && done > start_done_;
  const double rate = measured ? static_cast<double>(done - start_done_) / seconds : 0.0;
  std::string line(what_);
  if (done > 0 || total > 0) {
    line += "  " + ProgressText(done, total, rate, unit_);
  }
  PrintText(file_, terminal_ ? std::string(kClearLine) + line : line + "\n");
  (void)std::fflush(file_);
}

}  // namespace mooring
