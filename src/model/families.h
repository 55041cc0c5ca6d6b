// The families of models this build knows: how each one's file is read into an Arch, and what its
// tensors are called. The only place where a family's name stands.
//
// Thread rule: pure functions.
#ifndef MOORING_MODEL_FAMILIES_H_
#define MOORING_MODEL_FAMILIES_H_

#include <span>
#include <string_view>

#include "base/result.h"
#include "load/model_file.h"
#include "model/arch.h"

namespace mooring {

// The names of a family's tensors; {} stands for the number of the layer. An empty name means that
// the family has no such tensor; a name that ends in '?' may be missing.
struct TensorNames {
  std::string_view embedding;    // [vocab, embed]
  std::string_view output_norm;  // [embed]
  std::string_view output;       // [vocab, embed]; missing: the embedding serves
  std::string_view attention_norm;
  std::string_view query, key, value, attention_output;
  std::string_view ffn_norm;
  std::string_view gate, up, down;
};

struct Family {
  std::string_view name;  // general.architecture in the file
  Result<Arch> (*read_arch)(const ModelFile& file);
  TensorNames names;
};

// The same for sentence encoders. Names may have a word in front of them all, `prefix`.
struct EncoderTensorNames {
  std::string_view prefix;
  std::string_view embedding;  // [vocab, embed]
  std::string_view positions;  // [positions, embed]
  std::string_view segments;   // [segments, embed]
  std::string_view embedding_norm;
  std::string_view query, key, value, attention_output;
  std::string_view attention_norm;
  std::string_view up, down;
  std::string_view ffn_norm;
  // Behind each of the above from embedding_norm on.
  std::string_view weight, bias;
};

struct EncoderFamily {
  std::string_view name;
  Result<EncoderArch> (*read_arch)(const ModelFile& file);
  EncoderTensorNames names;
};

std::span<const Family> Families();

// kModelInvalid naming the known families when the file is of none of them; of a sentence encoder
// it says that that cannot talk.
Result<const Family*> FindFamily(const ModelFile& file);
// Null when the file is of no family of sentence encoders.
const EncoderFamily* FindEncoderFamily(const ModelFile& file);

}  // namespace mooring

#endif  // MOORING_MODEL_FAMILIES_H_
