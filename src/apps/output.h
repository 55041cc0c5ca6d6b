// How commands write: text that cannot throw, JSON, tables, sizes for people, and a progress line.
//
// Thread rule: one thread per stream.
#ifndef MOORING_APPS_OUTPUT_H_
#define MOORING_APPS_OUTPUT_H_

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring {

using Json = nlohmann::ordered_json;

// Writes `text`; a failure stays in the stream's error flag, which RunMooring looks at in the end.
void PrintText(std::FILE* file, std::string_view text);

// fmt::print throws when the reader of a pipe has gone; this does not.
template <typename... Args>
void Print(std::FILE* file, fmt::format_string<Args...> format, Args&&... args) {
  PrintText(file, fmt::format(format, std::forward<Args>(args)...));
}

// One object on one line; bytes that are not UTF-8 become U+FFFD.
std::string JsonText(const Json& json);
void PrintJson(std::FILE* file, const Json& json);

bool IsTerminal(std::FILE* file);

// Text that a file or a stranger wrote, with control characters as \xNN, so that it cannot steer a
// terminal. Line feeds stay where `keep_lines`.
std::string SafeText(std::string_view text, bool keep_lines = false);

// "98.4 MB", decimal units.
std::string HumanBytes(uint64_t bytes);
// "1,048,576".
std::string Grouped(int64_t number);

// How many columns `text` takes on a terminal.
size_t DisplayWidth(std::string_view text);

std::string Bold(std::string_view text, bool color);

// Left-aligned columns, as wide as they need to be; the first row is the heading.
class Table {
 public:
  explicit Table(std::vector<std::string> heading) { Add(std::move(heading)); }
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  void Print(std::FILE* file, bool color) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

enum class ProgressUnit : uint8_t { kBytes, kTokens };

// What long work shows: on a terminal one line that is drawn again and again, elsewhere a
// line at most once a second.
class ProgressLine {
 public:
  // `shown` false: nothing at all.
  ProgressLine(std::FILE* file, bool shown, ProgressUnit unit = ProgressUnit::kBytes);
  ~ProgressLine();  // takes the line away
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // A change of `what` starts a new measurement of the rate. 0 in all: not known.
  void Update(std::string_view what, uint64_t done, uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;
  std::FILE* file_;
  bool shown_;
  ProgressUnit unit_;
  bool terminal_;
  bool drawn_ = false;
  std::string what_;
  Clock::time_point start_, last_;
  uint64_t start_done_ = 0;
};

// "  41%  40.3 MB of 98.4 MB  12.1 MB/s  0:04 left": what a progress line says. Pure.
std::string ProgressText(uint64_t done, uint64_t total, double per_second,
                         ProgressUnit unit = ProgressUnit::kBytes);

}  // namespace mooring

#endif  // MOORING_APPS_OUTPUT_H_
