// A sentence encoder: the ids of a text in, a vector of length 1 out that points where texts of
// like meaning point. The mean of what a small network that looks both ways makes of each token
// (Reimers and Gurevych 2019).
//
// Invariant: a text's vector depends on its ids only, bit by bit, not on what was encoded before or
// on the number of threads.
//
// Thread rule: immutable after Load; any thread may encode with a space of its own.
#ifndef MOORING_MODEL_ENCODER_H_
#define MOORING_MODEL_ENCODER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "base/token.h"
#include "kernels/kernels.h"
#include "load/model_file.h"
#include "model/arch.h"
#include "model/weights.h"
#include "model/workspace.h"

namespace mooring {

// A projection with what is added behind it.
struct BiasedProjection {
  Projection projection;
  std::vector<float> bias;  // [outputs]
};

struct ScaleAndShift {
  std::vector<float> weight, bias;  // [embed]
};

struct EncoderLayer {
  BiasedProjection query, key, value, attention_output;
  ScaleAndShift attention_norm;
  BiasedProjection up, down;
  ScaleAndShift ffn_norm;
};

class Encoder {
 public:
  // Longer texts than sentence encoders are trained on; what stands before is cut off by whoever
  // makes the ids.
  static constexpr int64_t kMostTokens = 256;

  // Buffers for one text at a time, taken once: Encode allocates nothing. `pool` outlives it and
  // serves nobody else meanwhile.
  class Space {
   public:
    Space(const Encoder& encoder, ThreadPool* pool);

   private:
    friend class EncoderPass;
    ThreadPool* pool_;
    AlignedArray<float> hidden_;     // [tokens, embed]
    AlignedArray<float> query_;      // [tokens, embed]
    AlignedArray<float> key_;        // [tokens, embed]
    AlignedArray<float> value_;      // [tokens, embed]
    AlignedArray<float> attended_;   // [tokens, embed]
    AlignedArray<float> projected_;  // [tokens, embed]
    AlignedArray<float> ffn_;        // [tokens, ffn]
    AlignedArray<float> heads_;      // [threads, head_floats_]
    int64_t head_floats_;
  };

  // Binds the file's tensors; weights stay in the mapped file, which the encoder keeps. `kernels`
  // are constants of the program. kModelInvalid names file, field or tensor, expected and found.
  static Result<std::unique_ptr<const Encoder>> Load(std::unique_ptr<ModelFile> file,
                                                     const Kernels& kernels);

  const EncoderArch& arch() const { return arch_; }
  const ModelFile& file() const { return *file_; }
  int64_t dim() const { return arch_.embed_dim; }
  // Most ids of one text.
  int64_t most_tokens() const { return most_tokens_; }

  // `vector` [dim] gets the text's direction; zeros if it has none (a model that gave infinities).
  // REQUIRES: 1 to most_tokens() ids in [0, vocab_size), a space made for this encoder.
  void Encode(std::span<const TokenId> ids, Space* space, std::span<float> vector) const;

 private:
  friend class EncoderPass;

  Encoder(std::unique_ptr<ModelFile> file, const Kernels& kernels)
      : file_(std::move(file)), kernels_(kernels) {}
  Status Bind();

  std::unique_ptr<ModelFile> file_;
  const Kernels& kernels_;
  EncoderArch arch_;
  int64_t most_tokens_ = 0;
  TensorView embedding_;  // [vocab, embed]
  DequantizeFunction embedding_row_ = nullptr;
  std::vector<float> places_;  // [most_tokens_, embed]: position, and the first segment
  ScaleAndShift embedding_norm_;
  std::vector<EncoderLayer> layers_;
};

}  // namespace mooring

#endif  // MOORING_MODEL_ENCODER_H_
