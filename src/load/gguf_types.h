// The element types that GGUF files can name, and which of them this build can read.
//
// Thread rule: constants.
#ifndef MOORING_LOAD_GGUF_TYPES_H_
#define MOORING_LOAD_GGUF_TYPES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tensor/dtype.h"

namespace mooring {

// The type a tensor of GGUF type `id` is bound as; nothing for one that this build cannot read.
std::optional<DType> DTypeFromGgufId(uint32_t id);

// The GGUF id of a type.
uint32_t GgufIdOf(DType dtype);

// For messages: "Q6_K (14)", "unknown type (77)".
std::string GgufTypeText(uint32_t id);

// For messages: "F32 (0), F16 (1), ...": every type this build can read.
std::string SupportedGgufTypesText();

}  // namespace mooring

#endif  // MOORING_LOAD_GGUF_TYPES_H_
