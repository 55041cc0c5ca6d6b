// Keys and values of conversations that are not in the engine, as files: a cache that can be thrown
// away at any time, for the log in the store gives the same again, at the price of its length.
//
// A file proves itself (talk/checked_container.h): it names what its numbers depend on and its
// conversation, and is whole or refused. One stands for each conversation, the newest, of whichever
// branch; together they stay below a limit, the oldest going first.
//
// Thread rule: one thread at a time.
#ifndef MOORING_TALK_SNAPSHOT_FILES_H_
#define MOORING_TALK_SNAPSHOT_FILES_H_

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mooring {

class SnapshotFiles {
 public:
  // `folder` is made, mode 0700, when the first file is written. `identity`: model, arithmetic and
  // whatever else the numbers depend on; files of another are passed over.
  SnapshotFiles(std::filesystem::path folder, std::string identity, uint64_t limit_bytes);

  // Replaces the file of the conversation (its id in the store). kResources for a full disk; on any
  // error the file before is as it was.
  Status Save(std::string_view conversation, std::string_view snapshot);
  // What was saved last, and nothing when there is none. A file that is damaged is removed, and the
  // error says so (kModelInvalid).
  Result<std::optional<std::string>> Load(std::string_view conversation);
  void Remove(std::string_view conversation);

 private:
  std::filesystem::path PathOf(std::string_view conversation) const;
  void KeepBelowLimit(const std::filesystem::path& newest) const;

  std::filesystem::path folder_;
  std::string identity_;
  uint64_t limit_bytes_;
};

}  // namespace mooring

#endif  // MOORING_TALK_SNAPSHOT_FILES_H_
