// A disk for SQLite on which bad things happen on purpose: writes and syncs fail, the process dies
// at the n-th of them, the power goes and takes along what was not synced. Files are real ones;
// beside each the disk remembers what was synced and what was written since.
//
// Thread rule: one thread.
#ifndef MOORING_TALK_STORE_TEST_DISK_H_
#define MOORING_TALK_STORE_TEST_DISK_H_

#include <gtest/gtest.h>
#include <signal.h>  // NOLINT: kill is POSIX
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"

namespace mooring {

class TestDisk {
 public:
  enum class Act { kWrite, kSync, kTruncate, kDelete };
  // Called before (and after) each act; a code but SQLITE_OK is what SQLite gets instead of it.
  std::function<int(Act, bool is_log, bool after)> on_act;
  int64_t bytes_read = 0;

  TestDisk() : base_(sqlite3_vfs_find(nullptr)), name_("test-disk") {
    vfs_.iVersion = 1;
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + base_->szOsFile;
    vfs_.mxPathname = base_->mxPathname;
    vfs_.zName = name_.c_str();
    vfs_.pAppData = this;
    vfs_.xOpen = Open;
    vfs_.xDelete = Delete;
    vfs_.xAccess = [](sqlite3_vfs* vfs, const char* name, int flags, int* out) {
      return Of(vfs)->base_->xAccess(Of(vfs)->base_, name, flags, out);
    };
    vfs_.xFullPathname = [](sqlite3_vfs* vfs, const char* name, int size, char* out) {
      return Of(vfs)->base_->xFullPathname(Of(vfs)->base_, name, size, out);
    };
    vfs_.xRandomness = [](sqlite3_vfs* vfs, int size, char* out) {
      return Of(vfs)->base_->xRandomness(Of(vfs)->base_, size, out);
    };
    vfs_.xSleep = [](sqlite3_vfs* vfs, int microseconds) {
      return Of(vfs)->base_->xSleep(Of(vfs)->base_, microseconds);
    };
    vfs_.xCurrentTime = [](sqlite3_vfs* vfs, double* days) {
      return Of(vfs)->base_->xCurrentTime(Of(vfs)->base_, days);
    };
    vfs_.xGetLastError = [](sqlite3_vfs*, int, char*) { return 0; };
    EXPECT_EQ(sqlite3_vfs_register(&vfs_, 0), SQLITE_OK);
  }
  TestDisk(const TestDisk&) = delete;
  TestDisk& operator=(const TestDisk&) = delete;
  ~TestDisk() { sqlite3_vfs_unregister(&vfs_); }

  const std::string& name() const { return name_; }

  // What lies on the disk after the power went: of each file what was synced and any part of what
  // was written since, down to sectors of 512 bytes.
  void CutPower(const std::filesystem::path& into, uint64_t seed) const {
    uint64_t draw = 0;
    for (const auto& [path, kept] : files_) {
      if (!kept.synced) continue;  // its name was never synced either
      std::string content = *kept.synced;
      for (const Change& change : kept.since) {
        if (change.size) {
          if (RandomBits(seed, 1, draw++) % 2 == 0) content.resize(*change.size);
          continue;
        }
        for (size_t at = 0; at < change.bytes.size(); at += 512) {
          if (RandomBits(seed, 2, draw++) % 2 == 0) continue;
          const std::string sector = change.bytes.substr(at, 512);
          content.resize(std::max(content.size(), change.offset + at + sector.size()));
          content.replace(change.offset + at, sector.size(), sector);
        }
      }
      const auto file = into / std::filesystem::path(path).filename();
      std::ofstream(file, std::ios::binary) << content;
    }
  }

 private:
  struct Change {
    size_t offset = 0;
    std::string bytes = {};
    std::optional<size_t> size = {};  // a truncation
  };
  struct Kept {
    std::optional<std::string> synced;
    std::vector<Change> since;
  };
  struct File {
    sqlite3_file head;
    TestDisk* disk;
    const char* path;  // SQLite keeps it as long as the file is open
    bool is_log;
    sqlite3_file* base() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };

  static TestDisk* Of(sqlite3_vfs* vfs) { return static_cast<TestDisk*>(vfs->pAppData); }
  static File* Of(sqlite3_file* file) { return reinterpret_cast<File*>(file); }

  // Runs `act` between the two calls of `on_act`.
  template <typename Work>
  int Around(Act act, bool is_log, const Work& work) {
    if (on_act) {
      if (const int code = on_act(act, is_log, false); code != SQLITE_OK) return code;
    }
    const int code = work();
    if (code == SQLITE_OK && on_act) return on_act(act, is_log, true);
    return code;
  }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
    sqlite3_vfs* base = Of(vfs)->base_;
    File* opened = Of(file);
    const int code = base->xOpen(base, name, opened->base(), flags, out);
    file->pMethods = opened->base()->pMethods != nullptr ? Methods() : nullptr;
    opened->disk = Of(vfs);
    opened->path = name;
    opened->is_log = (flags & SQLITE_OPEN_WAL) != 0;
    return code;
  }
  static int Delete(sqlite3_vfs* vfs, const char* name, int sync) {
    TestDisk* disk = Of(vfs);
    return disk->Around(Act::kDelete, false, [&] {
      disk->files_.erase(name);
      return disk->base_->xDelete(disk->base_, name, sync);
    });
  }
  static int Write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 offset) {
    File* to = Of(file);
    return to->disk->Around(Act::kWrite, to->is_log, [&] {
      to->disk->files_[to->path].since.push_back(
          {static_cast<size_t>(offset),
           std::string(static_cast<const char*>(data), static_cast<size_t>(bytes))});
      return to->base()->pMethods->xWrite(to->base(), data, bytes, offset);
    });
  }
  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    File* of = Of(file);
    return of->disk->Around(Act::kTruncate, of->is_log, [&] {
      of->disk->files_[of->path].since.push_back({.size = static_cast<size_t>(size)});
      return of->base()->pMethods->xTruncate(of->base(), size);
    });
  }
  static int Sync(sqlite3_file* file, int flags) {
    File* of = Of(file);
    return of->disk->Around(Act::kSync, of->is_log, [&] {
      Kept& kept = of->disk->files_[of->path];
      std::string content = kept.synced.value_or("");
      for (const Change& change : kept.since) {
        const size_t end = change.offset + change.bytes.size();
        content.resize(change.size ? *change.size : std::max(content.size(), end));
        if (!change.size) content.replace(change.offset, change.bytes.size(), change.bytes);
      }
      kept = {.synced = std::move(content), .since = {}};
      return of->base()->pMethods->xSync(of->base(), flags);
    });
  }

  static const sqlite3_io_methods* Methods() {
    static constexpr sqlite3_io_methods kMethods = {
        .iVersion = 1,
        .xClose = [](sqlite3_file* f) { return Of(f)->base()->pMethods->xClose(Of(f)->base()); },
        .xRead =
            [](sqlite3_file* f, void* data, int bytes, sqlite3_int64 offset) {
              Of(f)->disk->bytes_read += bytes;
              return Of(f)->base()->pMethods->xRead(Of(f)->base(), data, bytes, offset);
            },
        .xWrite = Write,
        .xTruncate = Truncate,
        .xSync = Sync,
        .xFileSize =
            [](sqlite3_file* f, sqlite3_int64* size) {
              return Of(f)->base()->pMethods->xFileSize(Of(f)->base(), size);
            },
        .xLock = [](sqlite3_file*, int) { return SQLITE_OK; },
        .xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; },
        .xCheckReservedLock =
            [](sqlite3_file*, int* held) {
              *held = 0;
              return SQLITE_OK;
            },
        .xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; },
        .xSectorSize = [](sqlite3_file*) { return 512; },
        // Promises nothing: no safe overwriting, no order of writes.
        .xDeviceCharacteristics = [](sqlite3_file*) { return 0; },
        .xShmMap = nullptr,
        .xShmLock = nullptr,
        .xShmBarrier = nullptr,
        .xShmUnmap = nullptr,
        .xFetch = nullptr,
        .xUnfetch = nullptr};
    return &kMethods;
  }

  sqlite3_vfs* base_;
  std::string name_;
  sqlite3_vfs vfs_ = {};
  std::map<std::string, Kept> files_;  // by path
};

}  // namespace mooring

#endif  // MOORING_TALK_STORE_TEST_DISK_H_
