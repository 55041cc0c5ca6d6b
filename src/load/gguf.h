// Reads GGUF (versions 2 and 3, little endian): a dictionary, then a directory of tensors, then
// their data.
//
// Nothing in the file is trusted. The limits, each enforced before memory is taken: keys 65,536 of
// 1 to 65,535 bytes; tensors 65,536 with names of 1 to 64 bytes, rank 1 to 4, dimensions at least
// 1; strings 1 GiB; alignment a power of two up to 64 KiB; and in all no more memory than twice the
// file plus 16 MiB. Arrays of arrays, duplicate names and overlapping tensors are refused.
//
// Thread rule: pure functions of the bytes.
#ifndef MOORING_LOAD_GGUF_H_
#define MOORING_LOAD_GGUF_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/mapped_file.h"
#include "load/model_file.h"

namespace mooring {

struct GgufDirectory {
  uint32_t version = 0;
  std::map<std::string, MetaValue> values;
  std::vector<NamedTensor> tensors;  // views into the bytes that were read
};

// `path` is for messages. Every error is kModelInvalid.
Result<GgufDirectory> ParseGguf(std::span<const std::byte> bytes, const std::string& path);

Result<std::unique_ptr<ModelFile>> ReadGguf(MappedFile file);

}  // namespace mooring

#endif  // MOORING_LOAD_GGUF_H_
