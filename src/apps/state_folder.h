// Where this user's state lies: $XDG_STATE_HOME/mooring, else $HOME/.local/state/mooring.
//
// Thread rule: functions of their arguments and the disk.
#ifndef MOORING_APPS_STATE_FOLDER_H_
#define MOORING_APPS_STATE_FOLDER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "apps/config.h"
#include "base/result.h"
#include "load/file_lock.h"

namespace mooring {

// Nothing when the environment names no place. Creates nothing.
std::optional<std::filesystem::path> StateFolder(const Environment& environment);

// Keeps other programs of this user from writing `file` while the lock lives: one talk per file.
// The lock lies in the state folder, since the file itself is replaced at each writing. kStateHeld
// when another holds it; nothing where there is no state folder, or none that can be written.
Result<std::optional<FileLock>> LockFileInState(const Environment& environment,
                                                const std::filesystem::path& file);

// What was typed, one message a line (line feeds as U+240A), mode 0600. Typing goes on without it
// when it cannot be read or written.
class HistoryFile {
 public:
  // An empty path: nothing is read or kept.
  explicit HistoryFile(std::filesystem::path path) : path_(std::move(path)) {}

  // The newest entries, oldest first. A file that has grown far is cut back on this occasion.
  std::vector<std::string> Load() const;
  void Append(const std::string& line) const;

 private:
  std::filesystem::path path_;
};

}  // namespace mooring

#endif  // MOORING_APPS_STATE_FOLDER_H_
