#include "eval/text_source.h"

#include <fmt/format.h>
#include <zstd.h>

#include <memory>

#include "base/files.h"

namespace mooring {
namespace {

constexpr uint64_t kTextLimitBytes = 256 << 20;

Error Damaged(const std::filesystem::path& path, std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "cannot unpack the text",
               .where = path.string(),
               .expected = "a whole zstd file",
               .found = std::move(found)};
}

Result<std::string> Unpack(const std::string& packed, const std::filesystem::path& path) {
  const std::unique_ptr<ZSTD_DStream, size_t (*)(ZSTD_DStream*)> stream(ZSTD_createDStream(),
                                                                        &ZSTD_freeDStream);
  ZSTD_inBuffer in = {packed.data(), packed.size(), 0};
  std::string text;
  size_t left = 1;
  while (in.pos < in.size) {
    const size_t used = text.size();
    text.resize(used + ZSTD_DStreamOutSize());
    ZSTD_outBuffer out = {text.data() + used, text.size() - used, 0};
    left = ZSTD_decompressStream(stream.get(), &out, &in);
    text.resize(used + out.pos);
    if (ZSTD_isError(left) != 0) return Damaged(path, ZSTD_getErrorName(left));
    if (text.size() > kTextLimitBytes) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "the text is too long",
                   .where = path.string(),
                   .expected = fmt::format("at most {} bytes unpacked", kTextLimitBytes),
                   .found = "more"};
    }
  }
  if (left != 0) return Damaged(path, "the file ends early");
  return text;
}

}  // namespace

Result<std::string> ReadText(const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(std::string content, ReadFile(path, kTextLimitBytes));
  if (path.extension() == ".zst") return Unpack(content, path);
  return content;
}

}  // namespace mooring
