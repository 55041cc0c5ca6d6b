// Where the bytes of a model come from while it is taken into the cache: a file, or the member of a
// wheel (a zip archive). Read once, front to back.
//
// Thread rule: one thread.
#ifndef MOORING_LOAD_BYTE_SOURCE_H_
#define MOORING_LOAD_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"

namespace mooring {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  // The next bytes, at most buffer.size(); 0 at the end.
  virtual Result<size_t> Read(std::span<std::byte> buffer) = 0;

  const std::string& name() const { return name_; }  // for people; never used as a path
  uint64_t bytes() const { return bytes_; }          // as declared; the reader checks it

 protected:
  ByteSource(std::string name, uint64_t bytes) : name_(std::move(name)), bytes_(bytes) {}

 private:
  std::string name_;
  uint64_t bytes_;
};

// kNotFound, or kModelInvalid for a folder, pipe or empty file.
Result<std::unique_ptr<ByteSource>> OpenLocalSource(const std::filesystem::path& path);

// The one member that `pattern` (a shell pattern, for the member's path or its last part) picks;
// empty means "*.gguf". kModelInvalid when none matches, kUsage when several do (they are listed),
// kNetwork when the archive is damaged.
Result<std::unique_ptr<ByteSource>> OpenWheelSource(const std::filesystem::path& path,
                                                    const std::string& pattern);

}  // namespace mooring

#endif  // MOORING_LOAD_BYTE_SOURCE_H_
