#include "load/byte_cursor.h"

#include <fmt/format.h>

namespace mooring {

Result<std::string_view> ByteCursor::ReadString(std::string_view field, uint64_t least,
                                                uint64_t most) {
  const uint64_t start = offset_;
  auto length = Read<uint64_t>(field);
  if (!length.ok()) return std::move(length).error();
  if (*length < least || *length > most) {
    offset_ = start;
    return Invalid(field, start, fmt::format("{} to {} bytes", least, most),
                   fmt::format("a length of {}", *length));
  }
  if (*length > remaining()) {
    Error error = Truncated(field, *length);
    offset_ = start;
    return error;
  }
  const auto* text = reinterpret_cast<const char*>(bytes_.data() + offset_);
  offset_ += *length;
  return std::string_view(text, *length);
}

Error ByteCursor::Invalid(std::string_view field, uint64_t offset, std::string expected,
                          std::string found) const {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the model file is invalid or unsupported",
               .where = fmt::format("{}, {} at byte {}", path_, field, offset),
               .expected = std::move(expected),
               .found = std::move(found)};
}

Error ByteCursor::Truncated(std::string_view field, uint64_t wanted_bytes) const {
  return Invalid(field, offset_, fmt::format("{} more bytes", wanted_bytes),
                 fmt::format("{} before the end of the file", remaining()));
}

}  // namespace mooring
