#include "talk/checked_pages.h"

#include <fmt/format.h>
#include <sqlite3.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace mooring {

struct CheckedPages::Disk {
  sqlite3_vfs vfs = {};
  sqlite3_vfs* base = nullptr;
  std::string name;
};

namespace {

constexpr int kPageBytes = CheckedPages::kPageBytes;
constexpr int kSealAt = kPageBytes - CheckedPages::kSealBytes;

// SQLite allocates this and, behind it, room for the base's file, for pointers aligned.
struct CheckedFile {
  sqlite3_file head;
  sqlite3_file* base() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};

sqlite3_file* BaseOf(sqlite3_file* file) { return reinterpret_cast<CheckedFile*>(file)->base(); }

sqlite3_vfs* BaseOf(sqlite3_vfs* vfs) {
  return static_cast<CheckedPages::Disk*>(vfs->pAppData)->base;
}

uint64_t SealOf(const uint8_t* page, sqlite3_int64 offset) {
  return XXH3_64bits_withSeed(page, kSealAt, static_cast<uint64_t>(offset / kPageBytes));
}

bool SealHolds(const uint8_t* page, sqlite3_int64 offset) {
  uint64_t seal = 0;
  std::memcpy(&seal, page + kSealAt, sizeof(seal));
  if (seal == SealOf(page, offset)) return true;
  // A page that was never written, between others that were.
  return std::all_of(page, page + kPageBytes, [](uint8_t byte) { return byte == 0; });
}

int Close(sqlite3_file* file) { return BaseOf(file)->pMethods->xClose(BaseOf(file)); }

int Read(sqlite3_file* file, void* buffer, int bytes, sqlite3_int64 offset) {
  const int code = BaseOf(file)->pMethods->xRead(BaseOf(file), buffer, bytes, offset);
  // SQLite reads whole pages and, by name, fields of the first one's head.
  constexpr int kHeadBytes = 100;
  if (code != SQLITE_OK || bytes <= kHeadBytes) return code;
  if (bytes != kPageBytes || offset % kPageBytes != 0) return SQLITE_IOERR_DATA;
  return SealHolds(static_cast<const uint8_t*>(buffer), offset) ? SQLITE_OK : SQLITE_IOERR_DATA;
}

int Write(sqlite3_file* file, const void* data, int bytes, sqlite3_int64 offset) {
  if (bytes != kPageBytes || offset % kPageBytes != 0) return SQLITE_IOERR_DATA;
  std::array<uint8_t, kPageBytes> page;
  std::memcpy(page.data(), data, page.size());
  const uint64_t seal = SealOf(page.data(), offset);
  std::memcpy(page.data() + kSealAt, &seal, sizeof(seal));
  return BaseOf(file)->pMethods->xWrite(BaseOf(file), page.data(), kPageBytes, offset);
}

int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  return BaseOf(file)->pMethods->xTruncate(BaseOf(file), size);
}
int Sync(sqlite3_file* file, int flags) {
  return BaseOf(file)->pMethods->xSync(BaseOf(file), flags);
}
int FileSize(sqlite3_file* file, sqlite3_int64* size) {
  return BaseOf(file)->pMethods->xFileSize(BaseOf(file), size);
}
int Lock(sqlite3_file* file, int level) {
  return BaseOf(file)->pMethods->xLock(BaseOf(file), level);
}
int Unlock(sqlite3_file* file, int level) {
  return BaseOf(file)->pMethods->xUnlock(BaseOf(file), level);
}
int CheckReservedLock(sqlite3_file* file, int* held) {
  return BaseOf(file)->pMethods->xCheckReservedLock(BaseOf(file), held);
}
int FileControl(sqlite3_file* file, int operation, void* argument) {
  return BaseOf(file)->pMethods->xFileControl(BaseOf(file), operation, argument);
}
int SectorSize(sqlite3_file* file) { return BaseOf(file)->pMethods->xSectorSize(BaseOf(file)); }
int DeviceCharacteristics(sqlite3_file* file) {
  return BaseOf(file)->pMethods->xDeviceCharacteristics(BaseOf(file));
}

// Of version 1: no shared memory and no mapped pages, which would be read past us.
constexpr sqlite3_io_methods kMethods = {.iVersion = 1,
                                         .xClose = Close,
                                         .xRead = Read,
                                         .xWrite = Write,
                                         .xTruncate = Truncate,
                                         .xSync = Sync,
                                         .xFileSize = FileSize,
                                         .xLock = Lock,
                                         .xUnlock = Unlock,
                                         .xCheckReservedLock = CheckReservedLock,
                                         .xFileControl = FileControl,
                                         .xSectorSize = SectorSize,
                                         .xDeviceCharacteristics = DeviceCharacteristics,
                                         .xShmMap = nullptr,
                                         .xShmLock = nullptr,
                                         .xShmBarrier = nullptr,
                                         .xShmUnmap = nullptr,
                                         .xFetch = nullptr,
                                         .xUnfetch = nullptr};

int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) {
    return BaseOf(vfs)->xOpen(BaseOf(vfs), name, file, flags, out_flags);
  }
  const int code = BaseOf(vfs)->xOpen(BaseOf(vfs), name, BaseOf(file), flags, out_flags);
  // SQLite closes what has methods, also after a failure.
  file->pMethods = BaseOf(file)->pMethods != nullptr ? &kMethods : nullptr;
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  return BaseOf(vfs)->xDelete(BaseOf(vfs), name, sync_folder);
}
int Access(sqlite3_vfs* vfs, const char* name, int flags, int* result) {
  return BaseOf(vfs)->xAccess(BaseOf(vfs), name, flags, result);
}
int FullPathname(sqlite3_vfs* vfs, const char* name, int size, char* out) {
  return BaseOf(vfs)->xFullPathname(BaseOf(vfs), name, size, out);
}
int Randomness(sqlite3_vfs* vfs, int size, char* out) {
  return BaseOf(vfs)->xRandomness(BaseOf(vfs), size, out);
}
int Sleep(sqlite3_vfs* vfs, int microseconds) {
  return BaseOf(vfs)->xSleep(BaseOf(vfs), microseconds);
}
int CurrentTime(sqlite3_vfs* vfs, double* days) {
  return BaseOf(vfs)->xCurrentTime(BaseOf(vfs), days);
}
int GetLastError(sqlite3_vfs* vfs, int size, char* out) {
  return BaseOf(vfs)->xGetLastError(BaseOf(vfs), size, out);
}

}  // namespace

Result<std::unique_ptr<CheckedPages>> CheckedPages::Create(const std::string& base) {
  auto disk = std::make_unique<Disk>();
  disk->base = sqlite3_vfs_find(base.empty() ? nullptr : base.c_str());
  if (disk->base == nullptr) {
    return Error{
        .kind = ErrorKind::kUsage, .what = "SQLite knows no disk of that name", .found = base};
  }
  disk->name = fmt::format("mooring-{}", static_cast<const void*>(disk.get()));
  sqlite3_vfs& vfs = disk->vfs;
  vfs.iVersion = 1;
  vfs.szOsFile = static_cast<int>(sizeof(CheckedFile)) + disk->base->szOsFile;
  vfs.mxPathname = disk->base->mxPathname;
  vfs.zName = disk->name.c_str();
  vfs.pAppData = disk.get();
  vfs.xOpen = Open;
  vfs.xDelete = Delete;
  vfs.xAccess = Access;
  vfs.xFullPathname = FullPathname;
  vfs.xRandomness = Randomness;
  vfs.xSleep = Sleep;
  vfs.xCurrentTime = CurrentTime;
  vfs.xGetLastError = GetLastError;
  CHECK(sqlite3_vfs_register(&vfs, 0) == SQLITE_OK);
  return std::unique_ptr<CheckedPages>(new CheckedPages(std::move(disk)));
}

CheckedPages::CheckedPages(std::unique_ptr<Disk> disk) : disk_(std::move(disk)) {}

CheckedPages::~CheckedPages() { sqlite3_vfs_unregister(&disk_->vfs); }

const char* CheckedPages::name() const { return disk_->name.c_str(); }

}  // namespace mooring
