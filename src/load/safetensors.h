// Reads safetensors: the length of a directory as u64, the directory as JSON, then the data of the
// tensors, which fill the rest of the file without holes.
//
// Nothing in the file is trusted. The limits, each enforced before memory is taken: 8 MiB of
// directory, nested no deeper than its format needs; 65,536 tensors with names of 1 to 256 bytes,
// rank 0 to 4, dimensions at least 1. Names that come twice, tensors that overlap, holes and bytes
// that belong to no tensor are refused, so a file that was cut short or spliced is found here.
//
// Tensors of F32, F16 and BF16 are kept. Tables of whole numbers, which are no weights, are checked
// like the others and left out.
//
// Thread rule: pure functions of the bytes.
#ifndef MOORING_LOAD_SAFETENSORS_H_
#define MOORING_LOAD_SAFETENSORS_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/model_file.h"

namespace mooring {

// True for the first bytes of such a file: a length, then a JSON object.
bool LooksLikeSafetensors(std::span<const std::byte> bytes);

// The tensors in the order of the data, views into the bytes. `path` is for messages. Every error
// is kModelInvalid.
Result<std::vector<NamedTensor>> ParseSafetensors(std::span<const std::byte> bytes,
                                                  const std::string& path);

}  // namespace mooring

#endif  // MOORING_LOAD_SAFETENSORS_H_
