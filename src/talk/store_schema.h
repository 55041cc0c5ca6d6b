// The tables of the store and their version. docs/store.md is the contract.
//
// Thread rule: as the database.
#ifndef MOORING_TALK_STORE_SCHEMA_H_
#define MOORING_TALK_STORE_SCHEMA_H_

#include <string>

#include "base/result.h"
#include "talk/sqlite_database.h"

namespace mooring {

inline constexpr int kStoreSchemaVersion = 2;

// Makes the tables in an empty file, or brings those of an older version up to this one.
// kModelInvalid for another program's file, kConfig for a newer
// version; neither is changed. `where` is what errors call the file.
Status PrepareSchema(SqliteDatabase* database, const std::string& where);

}  // namespace mooring

#endif  // MOORING_TALK_STORE_SCHEMA_H_
