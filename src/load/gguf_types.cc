#include "load/gguf_types.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include "base/check.h"

namespace mooring {
namespace {

struct SupportedType {
  uint32_t id;
  DType dtype;
};

// One row per type that can be read.
constexpr std::array kSupportedTypes = {
    SupportedType{0, DType::kF32},  SupportedType{1, DType::kF16},  SupportedType{2, DType::kQ4_0},
    SupportedType{3, DType::kQ4_1}, SupportedType{8, DType::kQ8_0}, SupportedType{30, DType::kBF16},
};
static_assert(kSupportedTypes.size() == kDTypeCount);

// ggml's enum ggml_type, by id, with the ids that it has retired.
constexpr std::array<std::string_view, 41> kTypeNames = {
    "F32",
    "F16",
    "Q4_0",
    "Q4_1",
    "Q4_2 (retired)",
    "Q4_3 (retired)",
    "Q5_0",
    "Q5_1",
    "Q8_0",
    "Q8_1",
    "Q2_K",
    "Q3_K",
    "Q4_K",
    "Q5_K",
    "Q6_K",
    "Q8_K",
    "IQ2_XXS",
    "IQ2_XS",
    "IQ3_XXS",
    "IQ1_S",
    "IQ4_NL",
    "IQ3_S",
    "IQ2_S",
    "IQ4_XS",
    "I8",
    "I16",
    "I32",
    "I64",
    "F64",
    "IQ1_M",
    "BF16",
    "Q4_0_4_4",
    "Q4_0_4_8",
    "Q4_0_8_8",
    "TQ1_0",
    "TQ2_0",
    "IQ4_NL_4_4",
    "IQ4_NL_4_8",
    "IQ4_NL_8_8",
    "MXFP4",
    "NVFP4",
};

}  // namespace

std::optional<DType> DTypeFromGgufId(uint32_t id) {
  for (const SupportedType& type : kSupportedTypes) {
    if (type.id == id) return type.dtype;
  }
  return std::nullopt;
}

uint32_t GgufIdOf(DType dtype) {
  for (const SupportedType& type : kSupportedTypes) {
    if (type.dtype == dtype) return type.id;
  }
  CHECK(false, "no GGUF id for type {}", static_cast<int>(dtype));
}

std::string GgufTypeText(uint32_t id) {
  return fmt::format("{} ({})", id < kTypeNames.size() ? kTypeNames[id] : "unknown type", id);
}

std::string SupportedGgufTypesText() {
  std::string text;
  for (const SupportedType& type : kSupportedTypes) {
    if (!text.empty()) text += ", ";
    text += GgufTypeText(type.id);
  }
  return text;
}

}  // namespace mooring
