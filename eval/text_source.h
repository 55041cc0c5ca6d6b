// The text of an evaluation: a file, plain or .zst, or standard input ("-").
//
// Thread rule: pure function of the file.
#ifndef MOORING_EVAL_TEXT_SOURCE_H_
#define MOORING_EVAL_TEXT_SOURCE_H_

#include <filesystem>
#include <string>

#include "base/result.h"

namespace mooring {

// The whole text, unpacked. kNotFound, kUsage (longer than 256 MiB), kModelInvalid (a damaged
// .zst).
Result<std::string> ReadText(const std::filesystem::path& path);

}  // namespace mooring

#endif  // MOORING_EVAL_TEXT_SOURCE_H_
