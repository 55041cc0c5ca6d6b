#include "load/open.h"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "load/gguf.h"
#include "load/mapped_file.h"
#include "load/model_folder.h"
#include "load/quote.h"
#include "load/safetensors.h"

namespace mooring {
namespace {

struct Container {
  std::string_view magic;
  std::string_view name;
};

// Files that people mistake for models this build can read.
constexpr std::array kForeign = {
    Container{"lmgg", "an old GGML file; convert the model to GGUF"},
    Container{"fmgg", "an old GGMF file; convert the model to GGUF"},
    Container{"tjgg", "an old GGJT file; convert the model to GGUF"},
    Container{"algg", "a GGLA adapter, not a model"},
    Container{"PK\x03\x04", "a zip archive (a wheel, or PyTorch weights)"},
    Container{"\x1f\x8b", "a gzip archive"},
    Container{"\x28\xb5\x2f\xfd", "a zstd archive"},
    Container{"version https://git-lfs", "a Git LFS pointer, not the file it stands for"},
    Container{"<!DOCTYPE", "a web page"},
    Container{"<html", "a web page"},
};

std::string Describe(std::string_view start) {
  for (const Container& container : kForeign) {
    if (start.starts_with(container.magic)) return std::string(container.name);
  }
  if (LooksLikeSafetensors(std::as_bytes(std::span(start)))) {
    return "weights alone; name the folder that holds them with config.json and vocab.txt";
  }
  return fmt::format("a file that starts with {}", QuoteBytes(start.substr(0, 8)));
}

}  // namespace

Result<std::unique_ptr<ModelFile>> OpenModelFile(const std::filesystem::path& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return ReadModelFolder(path);
  MOORING_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  constexpr size_t kStartBytes = 32;
  const std::span<const std::byte> bytes = file.bytes();
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min(bytes.size(), kStartBytes));
  if (start.starts_with("GGUF")) return ReadGguf(std::move(file));
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "not a model file that this build can read",
               .where = fmt::format("{}, magic at byte 0", path.string()),
               .expected = "'GGUF', or a folder of safetensors",
               .found = Describe(start)};
}

}  // namespace mooring
