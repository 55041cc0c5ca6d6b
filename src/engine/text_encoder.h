// Text to vector: a sentence encoder with its tokenizer, as the memory of a conversation uses it.
//
// Invariant: the vector of a text depends on the text alone.
//
// Thread rule: the thread that may use the pool it was made with, which is the engine's.
#ifndef MOORING_ENGINE_TEXT_ENCODER_H_
#define MOORING_ENGINE_TEXT_ENCODER_H_

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/backend.h"
#include "model/encoder.h"
#include "text/wordpiece.h"

namespace mooring {

class TextEncoder {
 public:
  // From the folder of a model (load/model_folder.h). `backend` outlives this. kNotFound when the
  // folder or a file of it is missing; kModelInvalid names file, field, expected and found.
  static Result<std::unique_ptr<TextEncoder>> Open(const std::filesystem::path& folder,
                                                   Backend* backend);

  const Encoder& encoder() const { return *encoder_; }
  const WordPiece& tokenizer() const { return *tokenizer_; }
  int32_t dim() const { return static_cast<int32_t>(encoder_->dim()); }

  // Of a long text the end counts, as many tokens as the encoder takes. The vector is valid until
  // the next call.
  std::span<const float> Encode(std::string_view text);

 private:
  TextEncoder(std::unique_ptr<const Encoder> encoder, std::unique_ptr<const WordPiece> tokenizer,
              ThreadPool* pool);

  std::unique_ptr<const Encoder> encoder_;
  std::unique_ptr<const WordPiece> tokenizer_;
  Encoder::Space space_;
  std::vector<float> vector_;  // [dim]
};

}  // namespace mooring

#endif  // MOORING_ENGINE_TEXT_ENCODER_H_
