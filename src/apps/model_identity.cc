#include "apps/model_identity.h"

#include <xxhash.h>

#include <algorithm>
#include <type_traits>
#include <variant>

#include "load/sha256.h"

namespace mooring {
namespace {

// Of each end of a tensor: fine-tuned weights differ everywhere.
constexpr size_t kSampleBytes = 4096;

class Digest {
 public:
  template <typename T>
  void Add(const T& value) {
    if constexpr (std::is_arithmetic_v<T>) {
      sha_.Update(std::as_bytes(std::span(&value, 1)));
    } else if constexpr (std::is_convertible_v<T, std::string_view>) {
      const std::string_view text = value;
      Add(static_cast<uint64_t>(text.size()));
      sha_.Update(std::as_bytes(std::span(text)));
    } else {
      Add(static_cast<uint64_t>(value.size()));
      for (const auto& item : value) Add(static_cast<typename T::value_type>(item));
    }
  }
  void Bytes(std::span<const std::byte> bytes) { sha_.Update(bytes); }
  std::string Finish() { return sha_.Finish(); }

 private:
  Sha256 sha_;
};

}  // namespace

std::string ModelFingerprint(const ModelFile& file) {
  Digest digest;
  digest.Add(file.file_bytes());
  for (const auto& [key, value] : file.values()) {
    digest.Add(key);
    digest.Add(static_cast<uint64_t>(value.index()));
    std::visit([&digest](const auto& held) { digest.Add(held); }, value);
  }
  for (const NamedTensor& tensor : file.tensors()) {
    digest.Add(tensor.name);
    digest.Add(static_cast<uint64_t>(tensor.view.dtype));
    for (const int64_t size : tensor.view.shape) digest.Add(size);
    digest.Add(tensor.file_offset);
    const std::span data(tensor.view.data, static_cast<size_t>(tensor.view.bytes()));
    const size_t sample = std::min(kSampleBytes, data.size());
    digest.Bytes(data.first(sample));
    digest.Bytes(data.last(sample));
  }
  return digest.Finish();
}

ConversationIdentity IdentityOf(const Runtime& runtime) {
  ConversationIdentity identity;
  identity.model_name = runtime.model_name;
  identity.model_sha256 = ModelFingerprint(runtime.model->file());
  identity.tokenizer_hash = runtime.tokenizer->fingerprint();
  if (runtime.chat_template != nullptr) {
    const std::string& source = runtime.chat_template->source();
    identity.template_hash = XXH3_64bits(source.data(), source.size());
  }
  identity.isa = runtime.backend->kernels().name;
  identity.precision = NameOf(runtime.model->precision());
  return identity;
}

}  // namespace mooring
