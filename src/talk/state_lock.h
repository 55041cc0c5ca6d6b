// Keeps other processes (and other owners in this one) out of a state folder: an advisory lock on a
// file in it that names the holder's process. Let go when its owner ends, however that happens.
//
// Thread rule: any thread may take one.
#ifndef MOORING_TALK_STATE_LOCK_H_
#define MOORING_TALK_STATE_LOCK_H_

#include <filesystem>

#include "base/owned_descriptor.h"
#include "base/result.h"

namespace mooring {

class StateLock {
 public:
  static constexpr const char* kFileName = "lock";

  // kStateHeld at once, with the holder's process id, when another has the folder.
  static Result<StateLock> Take(const std::filesystem::path& folder);

 private:
  explicit StateLock(OwnedDescriptor file) : file_(std::move(file)) {}
  OwnedDescriptor file_;
};

}  // namespace mooring

#endif  // MOORING_TALK_STATE_LOCK_H_
