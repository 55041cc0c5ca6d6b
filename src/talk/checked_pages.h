// A disk for SQLite that seals every page of a database with a checksum, in eight bytes which
// SQLite leaves free at the page's end, and reads no page whose seal is broken
// (SQLITE_IOERR_DATA): a flipped bit, or a page in another's place, is never taken for data.
//
// Write-ahead logs and journals pass through; SQLite has checksums of its own there.
//
// Thread rule: made and destroyed where no database uses it; as SQLite's own disks in between.
#ifndef MOORING_TALK_CHECKED_PAGES_H_
#define MOORING_TALK_CHECKED_PAGES_H_

#include <memory>
#include <string>

#include "base/result.h"

namespace mooring {

class CheckedPages {
 public:
  struct Disk;  // SQLite's view of it
  static constexpr int kPageBytes = 4096;
  static constexpr int kSealBytes = 8;

  // On top of SQLite's disk of the name `base`, its default when that is empty. kUsage when there
  // is none.
  static Result<std::unique_ptr<CheckedPages>> Create(const std::string& base);
  CheckedPages(const CheckedPages&) = delete;
  CheckedPages& operator=(const CheckedPages&) = delete;
  // REQUIRES: all its databases are closed.
  ~CheckedPages();

  // What sqlite3_open_v2 is to be told.
  const char* name() const;

 private:
  explicit CheckedPages(std::unique_ptr<Disk> disk);
  std::unique_ptr<Disk> disk_;
};

}  // namespace mooring

#endif  // MOORING_TALK_CHECKED_PAGES_H_
