// SHA-256 of bytes that come in pieces, and of whole files.
//
// Thread rule: one thread per object.
#ifndef MOORING_LOAD_SHA256_H_
#define MOORING_LOAD_SHA256_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace mooring {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(std::span<const std::byte> bytes);
  // 64 lower-case hex digits. Call once, last.
  std::string Finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True for 64 lower-case hex digits.
bool IsSha256(std::string_view text);

// Called between pieces of a long piece of work with the bytes done so far; false stops it with
// kInterrupted.
using StepFunction = std::function<bool(uint64_t done_bytes)>;

// Reads the file once, with little memory. `step` may be empty.
Result<std::string> Sha256OfFile(const std::filesystem::path& path, const StepFunction& step = {});

}  // namespace mooring

#endif  // MOORING_LOAD_SHA256_H_
