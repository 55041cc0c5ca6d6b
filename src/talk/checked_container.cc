#include "talk/checked_container.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <fstream>
#include <optional>
#include <system_error>

#include "base/checked.h"
#include "base/files.h"
#include "talk/byte_stream.h"

namespace mooring {
namespace {

// Layout: header {magic[4], u32 version, u64 file bytes, u32 section count, u32 zero}; sections
// {tag[4], u32 zero, u64 body bytes, u64 xxh3 of the body} with their bodies, each filled up with
// zeros to a multiple of 8; u64 xxh3 of everything before.
constexpr std::string_view kMagic = "MOOR";
constexpr uint64_t kHeaderBytes = 24;
constexpr uint64_t kSectionHeaderBytes = 24;
constexpr uint64_t kAlignment = 8;
constexpr size_t kTagBytes = 4;

uint64_t Checksum(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Error Corrupt(const std::string& where, std::string_view part, std::string expected,
              std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the conversation file is damaged",
               .where = fmt::format("{}, {}", where, part),
               .expected = std::move(expected),
               .found = std::move(found),
               .remedy = "restore it from a copy; nothing was changed"};
}

// Magic, version and the file's own length.
Status CheckHeader(std::string_view header, uint64_t file_bytes, const std::string& where) {
  ByteReader reader(header);
  const std::string_view magic = reader.Bytes(kMagic.size());
  const auto version = reader.Number<uint32_t>();
  const auto stated_bytes = reader.Number<uint64_t>();
  if (magic != kMagic) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "this is not a conversation file",
                 .where = where,
                 .expected = "a file that begins with \"MOOR\"",
                 .found = header.empty() ? "an empty file" : "something else"};
  }
  if (reader.ok() && version != kContainerVersion) {
    return Error{.kind = ErrorKind::kConfig,
                 .what = "the conversation file has another version, or is damaged",
                 .where = where,
                 .expected = fmt::format("version {}", kContainerVersion),
                 .found = fmt::format("version {}", version),
                 .remedy = "use the program that wrote it"};
  }
  if (!reader.ok() || stated_bytes != file_bytes) {
    return Corrupt(where, "length",
                   reader.ok() ? fmt::format("{} bytes", stated_bytes)
                               : fmt::format("at least {} bytes", kHeaderBytes),
                   fmt::format("{} bytes", file_bytes));
  }
  return {};
}

}  // namespace

std::string BuildContainer(std::span<const ContainerSection> sections) {
  CheckedSize total = kHeaderBytes + sizeof(uint64_t);
  for (const ContainerSection& section : sections) {
    total = total + kSectionHeaderBytes + CheckedSize(section.body.size()).AlignUp(kAlignment);
  }
  const std::optional<uint64_t> file_bytes = total.value();
  CHECK(file_bytes.has_value());
  std::string file;
  file.reserve(*file_bytes);
  ByteWriter writer(&file);
  file += kMagic;
  writer.Number(kContainerVersion);
  writer.Number(*file_bytes);
  writer.Number(static_cast<uint32_t>(sections.size()));
  writer.Number<uint32_t>(0);
  for (const ContainerSection& section : sections) {
    CHECK(section.tag.size() == kTagBytes);
    file += section.tag;
    writer.Number<uint32_t>(0);
    writer.Number<uint64_t>(section.body.size());
    writer.Number(Checksum(section.body));
    file += section.body;
    file.resize((file.size() + kAlignment - 1) / kAlignment * kAlignment);
  }
  writer.Number(Checksum(file));
  return file;
}

Result<std::vector<std::string_view>> OpenContainer(std::string_view bytes,
                                                    const std::string& where,
                                                    std::span<const std::string_view> tags,
                                                    size_t optional) {
  MOORING_RETURN_IF_ERROR(CheckHeader(bytes.substr(0, kHeaderBytes), bytes.size(), where));
  if (bytes.size() < kHeaderBytes + sizeof(uint64_t)) {
    return Corrupt(where, "length", "a header and a checksum",
                   fmt::format("{} bytes", bytes.size()));
  }
  const std::string_view content = bytes.substr(0, bytes.size() - sizeof(uint64_t));
  const auto stated = ByteReader(bytes.substr(content.size())).Number<uint64_t>();
  if (stated != Checksum(content)) {
    return Corrupt(where, "checksum over all", fmt::format("{:016x}", stated),
                   fmt::format("{:016x}", Checksum(content)));
  }
  // From here on only a file that was made to deceive can fail.
  ByteReader reader(content.substr(kMagic.size() + sizeof(uint32_t) + sizeof(uint64_t)));
  const auto count = reader.Number<uint32_t>();
  reader.Number<uint32_t>();
  if (count > tags.size() || count + optional < tags.size()) {
    return Corrupt(where, "section count", fmt::format("{}", tags.size()),
                   fmt::format("{}", count));
  }
  std::vector<std::string_view> bodies;
  for (const std::string_view tag : tags.first(count)) {
    const std::string_view found_tag = reader.Bytes(kTagBytes);
    reader.Number<uint32_t>();
    const auto body_bytes = reader.Number<uint64_t>();
    const auto checksum = reader.Number<uint64_t>();
    const std::string_view body = reader.Bytes(body_bytes);
    const CheckedSize padded = CheckedSize(body_bytes).AlignUp(kAlignment);
    reader.Bytes((padded - body_bytes).value().value_or(UINT64_MAX));
    if (!reader.ok() || found_tag != tag) {
      return Corrupt(where, fmt::format("section {}", tag), "a whole section of that name",
                     reader.ok() ? "another" : "less");
    }
    if (checksum != Checksum(body)) {
      return Corrupt(where, fmt::format("checksum of section {}", tag),
                     fmt::format("{:016x}", checksum), fmt::format("{:016x}", Checksum(body)));
    }
    bodies.push_back(body);
  }
  if (!reader.complete()) {
    return Corrupt(where, "end", "nothing behind the last section",
                   fmt::format("{} bytes more", reader.left()));
  }
  bodies.resize(tags.size());
  return bodies;
}

Result<std::string> ReadContainerFile(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "this is not a conversation file",
                 .where = path.string(),
                 .expected = "a regular file",
                 .found = std::filesystem::is_directory(status) ? "a folder" : "something else"};
  }
  // The header alone first: no memory is taken for a file that cannot be one of ours.
  const uint64_t file_bytes = std::filesystem::file_size(path, error);
  if (!error) {
    std::ifstream file(path, std::ios::binary);
    std::string header(kHeaderBytes, '\0');
    file.read(header.data(), static_cast<std::streamsize>(header.size()));
    header.resize(static_cast<size_t>(file.gcount()));
    if (file.is_open()) {
      MOORING_RETURN_IF_ERROR(CheckHeader(header, file_bytes, path.string()));
    }
  }
  return ReadFile(path, error ? kHeaderBytes : file_bytes);
}

}  // namespace mooring
