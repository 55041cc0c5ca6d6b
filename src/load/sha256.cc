#include "load/sha256.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/files.h"
#include "base/owned_descriptor.h"

namespace mooring {

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  CHECK(
      state_->context != nullptr && EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) == 1,
      "OpenSSL has no SHA-256");
}

Sha256::~Sha256() { EVP_MD_CTX_free(state_->context); }

void Sha256::Update(std::span<const std::byte> bytes) {
  CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::Finish() {
  std::array<unsigned char, 32> digest{};
  CHECK(EVP_DigestFinal_ex(state_->context, digest.data(), nullptr) == 1);
  std::string hex;
  for (const unsigned char byte : digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

Result<std::string> Sha256OfFile(const std::filesystem::path& path, const StepFunction& step) {
  constexpr size_t kPieceBytes = 1 << 20;
  const auto failure = [&](int error_number) {
    return Error{.kind = KindOfErrno(error_number),
                 .what = "cannot read the file",
                 .where = path.string(),
                 .found = ErrnoText(error_number)};
  };
  const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return failure(errno);
  Sha256 hash;
  std::vector<std::byte> piece(kPieceBytes);
  uint64_t done_bytes = 0;
  for (;;) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure(errno);
    if (count == 0) return hash.Finish();
    hash.Update({piece.data(), static_cast<size_t>(count)});
    done_bytes += static_cast<uint64_t>(count);
    if (step && !step(done_bytes)) {
      return Error{.kind = ErrorKind::kInterrupted, .what = "stopped", .where = path.string()};
    }
  }
}

}  // namespace mooring
