#include "apps/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <span>
#include <sstream>
#include <system_error>
#include <utility>

#include "base/files.h"
#include "base/owned_descriptor.h"

namespace mooring {
namespace {

constexpr size_t kKeptEntries = 1000;
constexpr size_t kCutAtEntries = 2 * kKeptEntries;
constexpr size_t kLongestEntryBytes = 64 * 1024;
constexpr uint64_t kHistoryLimitBytes = uint64_t{256} << 20;
constexpr mode_t kPrivateFile = 0600;

}  // namespace

std::optional<std::filesystem::path> StateFolder(const Environment& environment) {
  const auto value = [&environment](std::string_view name) -> std::filesystem::path {
    const auto it = environment.find(name);
    return it == environment.end() ? "" : it->second;
  };
  // Relative paths in these variables are to be ignored, says their specification.
  if (const auto state = value("XDG_STATE_HOME"); state.is_absolute()) return state / "mooring";
  if (const auto home = value("HOME"); home.is_absolute()) {
    return home / ".local" / "state" / "mooring";
  }
  return std::nullopt;
}

Result<std::optional<FileLock>> LockFileInState(const Environment& environment,
                                                const std::filesystem::path& file) {
  const auto state = StateFolder(environment);
  if (!state) return std::optional<FileLock>();
  std::error_code error;
  const std::filesystem::path folder = *state / "locks";
  std::filesystem::create_directories(folder, error);
  const std::string name = std::filesystem::weakly_canonical(file, error).string();
  const std::filesystem::path path =
      folder / fmt::format("{:016x}.lock", XXH3_64bits(name.data(), name.size()));
  Result<FileLock> lock = FileLock::Take(path, [] { return false; });
  if (lock.ok()) return std::optional(std::move(lock).value());
  if (lock.error().kind != ErrorKind::kInterrupted) return std::optional<FileLock>();
  return Error{.kind = ErrorKind::kStateHeld,
               .what = "another program is talking in this conversation",
               .where = file.string(),
               .remedy = "leave it there first, or copy the file with `mooring conv export`"};
}

std::vector<std::string> HistoryFile::Load() const {
  std::vector<std::string> entries;
  if (path_.empty()) return entries;
  const Result<std::string> content = ReadFile(path_, kHistoryLimitBytes);
  if (!content.ok()) return entries;
  std::istringstream lines(*content);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) entries.push_back(std::move(line));
  }
  const bool cut = entries.size() > kCutAtEntries;
  if (entries.size() > kKeptEntries) {
    entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(kKeptEntries));
  }
  if (cut) {
    std::string kept;
    for (const std::string& entry : entries) kept += entry + "\n";
    (void)WriteFileAtomically(path_, std::as_bytes(std::span(kept)));
  }
  return entries;
}

void HistoryFile::Append(const std::string& line) const {
  if (path_.empty() || line.empty() || line.size() > kLongestEntryBytes) return;
  std::error_code ignored;
  if (std::filesystem::create_directories(path_.parent_path(), ignored)) {
    std::filesystem::permissions(path_.parent_path(), std::filesystem::perms::owner_all, ignored);
  }
  const OwnedDescriptor file(
      ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivateFile));
  if (!file.ok()) return;
  (void)::fchmod(file.get(), kPrivateFile);
  const std::string entry = line + "\n";
  // One write, so that two programs cannot mix their lines; a lost entry is no harm.
  const ssize_t written = ::write(file.get(), entry.data(), entry.size());
  (void)written;
}

}  // namespace mooring
