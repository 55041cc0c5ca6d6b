#include "model/encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>

#include "base/check.h"
#include "model/binder.h"
#include "model/families.h"

namespace mooring {
namespace {

// Outputs per work item: whole panels of the matmul, and enough items for two threads or four.
constexpr int64_t kOutputsPerItem = 48;

// The layer of one head: queries and values in an order that the matmul reads, and the weights.
int64_t HeadFloats(int64_t tokens, int64_t head_dim) { return tokens * (3 * head_dim + tokens); }

}  // namespace

// One text on its way through the encoder.
class EncoderPass {
 public:
  EncoderPass(const Encoder& encoder, std::span<const TokenId> ids, Encoder::Space* space)
      : encoder_(encoder),
        arch_(encoder.arch_),
        kernels_(encoder.kernels_),
        ids_(ids),
        space_(*space),
        rows_(static_cast<int64_t>(ids.size())) {}

  void Run(std::span<float> vector) {
    Embed();
    for (const EncoderLayer& layer : encoder_.layers_) Layer(layer);
    Pool(vector);
  }

 private:
  struct Use {
    const BiasedProjection* weights;
    float* out;  // [rows, outputs]
  };

  template <typename F>
  void ForEachRow(F per_row) {
    space_.pool_->Run(rows_, [&](int64_t row, int /*thread*/) { per_row(row); });
  }

  void Embed();
  void Layer(const EncoderLayer& layer);
  // out = input * weights + bias, and `then` on what is out, a run of outputs of one row at a time.
  template <typename Then>
  void Multiply(std::span<const Use> uses, const float* input, Then then);
  void Attend(int64_t head, float* scratch);
  // hidden = norm(hidden + projected), which is what each half of a layer ends with.
  void AddAndNormalise(const ScaleAndShift& norm);
  void Pool(std::span<float> vector) const;

  const Encoder& encoder_;
  const EncoderArch& arch_;
  const Kernels& kernels_;
  std::span<const TokenId> ids_;
  Encoder::Space& space_;
  int64_t rows_;
};

void EncoderPass::Embed() {
  const int64_t dim = arch_.embed_dim;
  ForEachRow([&](int64_t row) {
    float* hidden = space_.hidden_.data() + row * dim;
    encoder_.embedding_row_(encoder_.embedding_.row(ids_[static_cast<size_t>(row)]), dim, hidden);
    kernels_.Add(encoder_.places_.data() + row * dim, dim, hidden);
    const ScaleAndShift& norm = encoder_.embedding_norm_;
    kernels_.LayerNorm(hidden, norm.weight.data(), norm.bias.data(), arch_.norm_epsilon, dim,
                       hidden);
  });
}

void EncoderPass::Layer(const EncoderLayer& layer) {
  const auto nothing = [](float* /*out*/, int64_t /*count*/) {};
  const std::array<Use, 3> qkv = {{{&layer.query, space_.query_.data()},
                                   {&layer.key, space_.key_.data()},
                                   {&layer.value, space_.value_.data()}}};
  Multiply(qkv, space_.hidden_.data(), nothing);
  space_.pool_->Run(arch_.heads, [&](int64_t head, int thread) {
    Attend(head, space_.heads_.data() + thread * space_.head_floats_);
  });
  const std::array<Use, 1> output = {{{&layer.attention_output, space_.projected_.data()}}};
  Multiply(output, space_.attended_.data(), nothing);
  AddAndNormalise(layer.attention_norm);

  const std::array<Use, 1> up = {{{&layer.up, space_.ffn_.data()}}};
  Multiply(up, space_.hidden_.data(),
           [this](float* out, int64_t count) { kernels_.Gelu(out, count, out); });
  const std::array<Use, 1> down = {{{&layer.down, space_.projected_.data()}}};
  Multiply(down, space_.ffn_.data(), nothing);
  AddAndNormalise(layer.ffn_norm);
}

template <typename Then>
void EncoderPass::Multiply(std::span<const Use> uses, const float* input, Then then) {
  const auto items_of = [](const Use& use) {
    return (use.weights->projection.outputs() + kOutputsPerItem - 1) / kOutputsPerItem;
  };
  int64_t items = 0;
  for (const Use& use : uses) items += items_of(use);
  space_.pool_->Run(items, [&](int64_t item, int /*thread*/) {
    const Use* use = uses.data();
    for (; item >= items_of(*use); ++use) item -= items_of(*use);
    const Projection& projection = use->weights->projection;
    const MatmulTask task = {.weights = projection.weight.data,
                             .weight_row_bytes = projection.weight.row_bytes(),
                             .in_dim = projection.inputs(),
                             .row_count = rows_,
                             .input = input,
                             .out = use->out,
                             .out_stride = projection.outputs()};
    const int64_t begin = item * kOutputsPerItem;
    const int64_t end = std::min(begin + kOutputsPerItem, projection.outputs());
    projection.matmul(task, begin, end);
    for (int64_t row = 0; row < rows_; ++row) {
      float* out = use->out + row * task.out_stride + begin;
      kernels_.Add(use->weights->bias.data() + begin, end - begin, out);
      then(out, end - begin);
    }
  });
}

// Scores and weighted values are products of matrices: keys serve as the weights of one as they
// lie, values, turned, as those of the other.
void EncoderPass::Attend(int64_t head, float* scratch) {
  const int64_t dim = arch_.embed_dim;
  const int64_t head_dim = arch_.head_dim();
  const int64_t at = head * head_dim;
  float* queries = scratch;                    // [rows, head_dim]
  float* values = queries + rows_ * head_dim;  // [head_dim, rows]
  float* out = values + rows_ * head_dim;      // [rows, head_dim]
  float* scores = out + rows_ * head_dim;      // [rows, rows]
  const float scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  for (int64_t row = 0; row < rows_; ++row) {
    const float* query = space_.query_.data() + row * dim + at;
    const float* value = space_.value_.data() + row * dim + at;
    for (int64_t i = 0; i < head_dim; ++i) {
      queries[row * head_dim + i] = query[i] * scale;
      values[i * rows_ + row] = value[i];
    }
  }
  const MatmulFunction matmul = kernels_.formats[static_cast<size_t>(DType::kF32)].matmul_float;
  const auto item_bytes = static_cast<int64_t>(sizeof(float));
  matmul({.weights = reinterpret_cast<const std::byte*>(space_.key_.data() + at),
          .weight_row_bytes = dim * item_bytes,
          .in_dim = head_dim,
          .row_count = rows_,
          .input = queries,
          .out = scores,
          .out_stride = rows_},
         0, rows_);
  for (int64_t row = 0; row < rows_; ++row) kernels_.Softmax(rows_, scores + row * rows_);
  matmul({.weights = reinterpret_cast<const std::byte*>(values),
          .weight_row_bytes = rows_ * item_bytes,
          .in_dim = rows_,
          .row_count = rows_,
          .input = scores,
          .out = out,
          .out_stride = head_dim},
         0, head_dim);
  for (int64_t row = 0; row < rows_; ++row) {
    std::copy_n(out + row * head_dim, head_dim, space_.attended_.data() + row * dim + at);
  }
}

void EncoderPass::AddAndNormalise(const ScaleAndShift& norm) {
  const int64_t dim = arch_.embed_dim;
  ForEachRow([&](int64_t row) {
    float* hidden = space_.hidden_.data() + row * dim;
    kernels_.Add(space_.projected_.data() + row * dim, dim, hidden);
    kernels_.LayerNorm(hidden, norm.weight.data(), norm.bias.data(), arch_.norm_epsilon, dim,
                       hidden);
  });
}

void EncoderPass::Pool(std::span<float> vector) const {
  const auto dim = static_cast<size_t>(arch_.embed_dim);
  // The length needs no mean: a sum points the same way.
  double squares = 0;
  for (size_t i = 0; i < dim; ++i) {
    double sum = 0;
    for (int64_t row = 0; row < rows_; ++row) {
      sum += static_cast<double>(space_.hidden_.data()[static_cast<size_t>(row) * dim + i]);
    }
    vector[i] = static_cast<float>(sum);
    squares += sum * sum;
  }
  const double inverse = squares > 0 && std::isfinite(squares) ? 1.0 / std::sqrt(squares) : 0.0;
  for (float& item : vector) {
    item = inverse == 0.0 ? 0.0F : static_cast<float>(static_cast<double>(item) * inverse);
  }
}

Encoder::Space::Space(const Encoder& encoder, ThreadPool* pool) : pool_(pool) {
  const EncoderArch& arch = encoder.arch();
  const auto tokens = static_cast<size_t>(encoder.most_tokens());
  const size_t rows = tokens * static_cast<size_t>(arch.embed_dim);
  for (AlignedArray<float>* array : {&hidden_, &query_, &key_, &value_, &attended_, &projected_}) {
    *array = AlignedArray<float>(rows);
  }
  ffn_ = AlignedArray<float>(tokens * static_cast<size_t>(arch.ffn_dim));
  head_floats_ = HeadFloats(encoder.most_tokens(), arch.head_dim());
  heads_ = AlignedArray<float>(static_cast<size_t>(pool->thread_count()) *
                               static_cast<size_t>(head_floats_));
}

Result<std::unique_ptr<const Encoder>> Encoder::Load(std::unique_ptr<ModelFile> file,
                                                     const Kernels& kernels) {
  std::unique_ptr<Encoder> encoder(new Encoder(std::move(file), kernels));
  MOORING_RETURN_IF_ERROR(encoder->Bind());
  return std::unique_ptr<const Encoder>(std::move(encoder));
}

Status Encoder::Bind() {
  const EncoderFamily* family = FindEncoderFamily(*file_);
  if (family == nullptr) {
    const auto name = file_->GetOr<std::string>("general.architecture", "none");
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "this is no sentence encoder that this build knows",
                 .where = file_->path().string(),
                 .expected = "a folder of an encoder, like that of all-minilm-l6-v2",
                 .found = name.ok() ? *name : "a file of another kind",
                 .remedy = "mooring pull all-minilm-l6-v2"};
  }
  MOORING_ASSIGN_OR_RETURN(arch_, family->read_arch(*file_));
  most_tokens_ = std::min(kMostTokens, arch_.positions);
  const EncoderTensorNames& names = family->names;
  std::string prefix(names.prefix);
  if (file_->FindTensor(prefix + std::string(names.embedding)) == nullptr) prefix.clear();
  Binder binder(*file_, Precision::kF32, kernels_, prefix);
  const auto with = [](std::string_view name, std::string_view end) {
    return std::string(name) + std::string(end);
  };
  const auto project = [&](std::string_view name, int layer, int64_t outputs, int64_t inputs) {
    return BiasedProjection{binder.Project(with(name, names.weight), layer, outputs, inputs),
                            binder.Numbers(with(name, names.bias), layer, outputs)};
  };
  const int64_t dim = arch_.embed_dim;
  const auto norm = [&](std::string_view name, int layer) {
    return ScaleAndShift{binder.Numbers(with(name, names.weight), layer, dim),
                         binder.Numbers(with(name, names.bias), layer, dim)};
  };
  embedding_ = binder.Matrix(names.embedding, 0, arch_.vocab_size, dim);
  embedding_row_ = kernels_.formats[static_cast<size_t>(embedding_.dtype)].dequantize;
  const TensorView positions = binder.Matrix(names.positions, 0, arch_.positions, dim);
  const TensorView segments = binder.Matrix(names.segments, 0, arch_.segments, dim);
  embedding_norm_ = norm(names.embedding_norm, 0);
  for (int i = 0; i < arch_.layer_count && binder.status().ok(); ++i) {
    layers_.push_back({.query = project(names.query, i, dim, dim),
                       .key = project(names.key, i, dim, dim),
                       .value = project(names.value, i, dim, dim),
                       .attention_output = project(names.attention_output, i, dim, dim),
                       .attention_norm = norm(names.attention_norm, i),
                       .up = project(names.up, i, arch_.ffn_dim, dim),
                       .down = project(names.down, i, dim, arch_.ffn_dim),
                       .ffn_norm = norm(names.ffn_norm, i)});
  }
  if (!binder.status().ok()) return binder.status();
  const auto row_of = [&](const TensorView& table, int64_t row, float* out) {
    kernels_.formats[static_cast<size_t>(table.dtype)].dequantize(table.row(row), dim, out);
  };
  std::vector<float> segment(static_cast<size_t>(dim));
  row_of(segments, 0, segment.data());
  places_.resize(static_cast<size_t>(most_tokens_ * dim));
  for (int64_t i = 0; i < most_tokens_; ++i) {
    row_of(positions, i, places_.data() + i * dim);
    kernels_.Add(segment.data(), dim, places_.data() + i * dim);
  }
  return {};
}

void Encoder::Encode(std::span<const TokenId> ids, Space* space, std::span<float> vector) const {
  CHECK(!ids.empty() && static_cast<int64_t>(ids.size()) <= most_tokens_);
  CHECK(static_cast<int64_t>(vector.size()) == dim());
  for (const TokenId id : ids) CHECK(id >= 0 && id < arch_.vocab_size);
  EncoderPass(*this, ids, space).Run(vector);
}

}  // namespace mooring
