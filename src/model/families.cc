#include "model/families.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/kernels.h"

namespace mooring {
namespace {

// A count from the file's dictionary, refused outside [low, high].
Result<int64_t> GetCount(const ModelFile& file, const std::string& key, int64_t low, int64_t high) {
  MOORING_ASSIGN_OR_RETURN(const int64_t value, file.Get<int64_t>(key));
  if (value < low || value > high) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "a size of the model is out of range",
                 .where = fmt::format("{}, {}", file.path().string(), key),
                 .expected = fmt::format("{} to {}", low, high),
                 .found = fmt::format("{}", value)};
  }
  return value;
}

Result<int64_t> GetCountOr(const ModelFile& file, const std::string& key, int64_t fallback,
                           int64_t low, int64_t high) {
  if (file.FindValue(key) == nullptr) return fallback;
  return GetCount(file, key, low, high);
}

Error Unsupported(const ModelFile& file, const std::string& key, std::string expected,
                  std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the model needs something that this build does not have",
               .where = fmt::format("{}, {}", file.path().string(), key),
               .expected = std::move(expected),
               .found = std::move(found)};
}

Status ReadRotary(const ModelFile& file, const std::string& prefix, Arch* arch) {
  RotarySpec& rotary = arch->rotary;
  MOORING_ASSIGN_OR_RETURN(
      const int64_t rotary_dim,
      GetCountOr(file, prefix + "rope.dimension_count", arch->head_dim, 2, arch->head_dim));
  if (rotary_dim % 2 != 0) {
    return Unsupported(file, prefix + "rope.dimension_count", "an even number",
                       fmt::format("{}", rotary_dim));
  }
  rotary.rotary_dim = static_cast<int>(rotary_dim);
  MOORING_ASSIGN_OR_RETURN(rotary.base, file.GetOr<double>(prefix + "rope.freq_base", 10000.0));
  if (!(rotary.base > 1.0 && rotary.base < 1e12)) {
    return Unsupported(file, prefix + "rope.freq_base", "more than 1 and less than 1e12",
                       fmt::format("{}", rotary.base));
  }
  const std::string type_key = prefix + "rope.scaling.type";
  MOORING_ASSIGN_OR_RETURN(const std::string type, file.GetOr<std::string>(type_key, "none"));
  if (type == "linear") {
    MOORING_ASSIGN_OR_RETURN(rotary.scale, file.Get<double>(prefix + "rope.scaling.factor"));
    if (!(rotary.scale >= 1.0 && rotary.scale <= 1e6)) {
      return Unsupported(file, prefix + "rope.scaling.factor", "1 to 1e6",
                         fmt::format("{}", rotary.scale));
    }
  } else if (type != "none") {
    return Unsupported(file, type_key, "none or linear", type);
  }
  const NamedTensor* divisors = file.FindTensor("rope_freqs.weight");
  if (divisors == nullptr) return {};
  const TensorView& view = divisors->view;
  if (view.dtype != DType::kF32 || view.rank != 1 || view.columns() != rotary_dim / 2) {
    return Unsupported(
        file, divisors->name, fmt::format("F32 [{}]", rotary_dim / 2),
        fmt::format("{} [{}] of rank {}", InfoOf(view.dtype).name, view.columns(), view.rank));
  }
  rotary.pair_divisors.resize(static_cast<size_t>(view.columns()));
  std::memcpy(rotary.pair_divisors.data(), view.data, static_cast<size_t>(view.bytes()));
  for (const float divisor : rotary.pair_divisors) {
    if (!(divisor > 0.0F && divisor < 1e9F)) {
      return Unsupported(file, divisors->name, "positive divisors", fmt::format("{}", divisor));
    }
  }
  return {};
}

// Llama and those built like it (Mistral, SmolLM): RMS norms, rotary pairs, grouped heads, SwiGLU.
Result<Arch> ReadLlama(const ModelFile& file) {
  const std::string prefix = "llama.";
  // Far above any model there is, far below what could overflow a size.
  constexpr int64_t kMaxDim = 1 << 20;
  Arch arch;
  arch.family = "llama";
  MOORING_ASSIGN_OR_RETURN(arch.embed_dim, GetCount(file, prefix + "embedding_length", 1, kMaxDim));
  MOORING_ASSIGN_OR_RETURN(arch.ffn_dim,
                           GetCount(file, prefix + "feed_forward_length", 1, kMaxDim));
  MOORING_ASSIGN_OR_RETURN(const int64_t layers, GetCount(file, prefix + "block_count", 1, 1024));
  const std::string heads_key = prefix + "attention.head_count";
  MOORING_ASSIGN_OR_RETURN(const int64_t heads, GetCount(file, heads_key, 1, 1024));
  MOORING_ASSIGN_OR_RETURN(const int64_t kv_heads,
                           GetCountOr(file, prefix + "attention.head_count_kv", heads, 1, heads));
  if (heads % kv_heads != 0) {
    return Unsupported(file, heads_key, fmt::format("a multiple of {} key/value heads", kv_heads),
                       fmt::format("{}", heads));
  }
  const std::string head_dim_key = prefix + "attention.key_length";
  MOORING_ASSIGN_OR_RETURN(const int64_t head_dim,
                           GetCountOr(file, head_dim_key, arch.embed_dim / heads, 1, kMaxHeadDim));
  MOORING_ASSIGN_OR_RETURN(
      const int64_t value_dim,
      GetCountOr(file, prefix + "attention.value_length", head_dim, 1, kMaxHeadDim));
  if (head_dim != value_dim || head_dim % 2 != 0 || head_dim < 2 || head_dim > kMaxHeadDim) {
    return Unsupported(
        file, head_dim_key,
        fmt::format("equal, even key and value sizes of 2 to {} items per head", kMaxHeadDim),
        fmt::format("{} and {}", head_dim, value_dim));
  }
  arch.query_heads = static_cast<int>(heads);
  arch.kv_heads = static_cast<int>(kv_heads);
  arch.head_dim = static_cast<int>(head_dim);
  arch.attention_scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
  MOORING_ASSIGN_OR_RETURN(arch.trained_window,
                           GetCount(file, prefix + "context_length", 2, int64_t{1} << 30));
  const std::string epsilon_key = prefix + "attention.layer_norm_rms_epsilon";
  MOORING_ASSIGN_OR_RETURN(const double epsilon, file.Get<double>(epsilon_key));
  if (!(epsilon > 0.0 && epsilon < 1.0)) {
    return Unsupported(file, epsilon_key, "more than 0 and less than 1",
                       fmt::format("{}", epsilon));
  }
  arch.norm_epsilon = static_cast<float>(epsilon);
  MOORING_RETURN_IF_ERROR(ReadRotary(file, prefix, &arch));
  arch.layers.assign(static_cast<size_t>(layers), LayerSpec{PairOrder::kInterleaved});
  return arch;
}

// BERT and those built like it (MiniLM, as sentence encoders use it).
Result<EncoderArch> ReadBert(const ModelFile& file) {
  constexpr int64_t kMaxDim = 1 << 16;
  constexpr int64_t kMaxHeads = 256;
  EncoderArch arch;
  arch.family = "bert";
  MOORING_ASSIGN_OR_RETURN(arch.vocab_size, GetCount(file, "vocab_size", 1, int64_t{1} << 20));
  MOORING_ASSIGN_OR_RETURN(arch.embed_dim, GetCount(file, "hidden_size", 1, kMaxDim));
  MOORING_ASSIGN_OR_RETURN(arch.ffn_dim, GetCount(file, "intermediate_size", 1, kMaxDim));
  MOORING_ASSIGN_OR_RETURN(arch.positions, GetCount(file, "max_position_embeddings", 2, 1 << 20));
  MOORING_ASSIGN_OR_RETURN(arch.segments, GetCount(file, "type_vocab_size", 2, 1024));
  MOORING_ASSIGN_OR_RETURN(const int64_t layers, GetCount(file, "num_hidden_layers", 1, 256));
  MOORING_ASSIGN_OR_RETURN(const int64_t heads,
                           GetCount(file, "num_attention_heads", 1, kMaxHeads));
  arch.layer_count = static_cast<int>(layers);
  arch.heads = static_cast<int>(heads);
  if (arch.embed_dim % heads != 0) {
    return Unsupported(file, "num_attention_heads",
                       fmt::format("a divisor of the hidden size {}", arch.embed_dim),
                       fmt::format("{}", heads));
  }
  MOORING_ASSIGN_OR_RETURN(const double epsilon, file.Get<double>("layer_norm_eps"));
  if (!(epsilon > 0.0 && epsilon < 1.0)) {
    return Unsupported(file, "layer_norm_eps", "more than 0 and less than 1",
                       fmt::format("{}", epsilon));
  }
  arch.norm_epsilon = static_cast<float>(epsilon);
  MOORING_ASSIGN_OR_RETURN(const std::string act, file.GetOr<std::string>("hidden_act", "gelu"));
  if (act != "gelu") return Unsupported(file, "hidden_act", "gelu", act);
  MOORING_ASSIGN_OR_RETURN(const std::string positions,
                           file.GetOr<std::string>("position_embedding_type", "absolute"));
  if (positions != "absolute") {
    return Unsupported(file, "position_embedding_type", "absolute", positions);
  }
  return arch;
}

constexpr std::array<EncoderFamily, 1> kEncoderFamilies = {{
    {"bert",
     &ReadBert,
     {.prefix = "bert.",
      .embedding = "embeddings.word_embeddings.weight",
      .positions = "embeddings.position_embeddings.weight",
      .segments = "embeddings.token_type_embeddings.weight",
      .embedding_norm = "embeddings.LayerNorm",
      .query = "encoder.layer.{}.attention.self.query",
      .key = "encoder.layer.{}.attention.self.key",
      .value = "encoder.layer.{}.attention.self.value",
      .attention_output = "encoder.layer.{}.attention.output.dense",
      .attention_norm = "encoder.layer.{}.attention.output.LayerNorm",
      .up = "encoder.layer.{}.intermediate.dense",
      .down = "encoder.layer.{}.output.dense",
      .ffn_norm = "encoder.layer.{}.output.LayerNorm",
      .weight = ".weight",
      .bias = ".bias"}},
}};

constexpr std::array<Family, 1> kFamilies = {{
    {"llama",
     &ReadLlama,
     {.embedding = "token_embd.weight",
      .output_norm = "output_norm.weight",
      .output = "output.weight?",
      .attention_norm = "blk.{}.attn_norm.weight",
      .query = "blk.{}.attn_q.weight",
      .key = "blk.{}.attn_k.weight",
      .value = "blk.{}.attn_v.weight",
      .attention_output = "blk.{}.attn_output.weight",
      .ffn_norm = "blk.{}.ffn_norm.weight",
      .gate = "blk.{}.ffn_gate.weight",
      .up = "blk.{}.ffn_up.weight",
      .down = "blk.{}.ffn_down.weight"}},
}};

}  // namespace

std::span<const Family> Families() { return kFamilies; }

Result<const Family*> FindFamily(const ModelFile& file) {
  const std::string key = "general.architecture";
  MOORING_ASSIGN_OR_RETURN(const std::string name, file.Get<std::string>(key));
  std::string known;
  for (const Family& family : kFamilies) {
    if (family.name == name) return &family;
    if (!known.empty()) known += ", ";
    known += family.name;
  }
  if (FindEncoderFamily(file) != nullptr) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "this is a sentence encoder: it serves the memory and cannot talk",
                 .where = fmt::format("{}, {}", file.path().string(), key),
                 .expected = known,
                 .found = name,
                 .remedy = "name it with memory.encoder, and a model that talks as the model"};
  }
  return Unsupported(file, key, known, name);
}

const EncoderFamily* FindEncoderFamily(const ModelFile& file) {
  const auto name = file.GetOr<std::string>("general.architecture", "");
  for (const EncoderFamily& family : kEncoderFamilies) {
    if (name.ok() && family.name == *name) return &family;
  }
  return nullptr;
}

}  // namespace mooring
