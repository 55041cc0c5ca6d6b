// The outside of a .moor file: named sections, each with its checksum, and one over all. Knows
// nothing of what the sections hold. docs/formats.md has the bytes.
//
// Thread rule: pure functions.
#ifndef MOORING_TALK_CHECKED_CONTAINER_H_
#define MOORING_TALK_CHECKED_CONTAINER_H_

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace mooring {

inline constexpr uint32_t kContainerVersion = 2;

struct ContainerSection {
  std::string_view tag;   // four letters
  std::string_view body;  // borrowed
};

std::string BuildContainer(std::span<const ContainerSection> sections);

// The bodies of the sections with exactly these tags in this order, borrowed from `bytes`, after
// every checksum has been verified; up to `optional` of the last may be missing, and their bodies
// are then empty. kModelInvalid names the place, expected and found; another version is kConfig.
// `where` is what errors call the file.
Result<std::vector<std::string_view>> OpenContainer(std::string_view bytes,
                                                    const std::string& where,
                                                    std::span<const std::string_view> tags,
                                                    size_t optional = 0);

// A regular file whose header and length fit, read whole. kNotFound, kUsage for what is no file,
// kModelInvalid for another kind of file or a truncated one.
Result<std::string> ReadContainerFile(const std::filesystem::path& path);

}  // namespace mooring

#endif  // MOORING_TALK_CHECKED_CONTAINER_H_
