#include "engine/text_encoder.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "load/model_folder.h"
#include "load/open.h"

namespace mooring {

TextEncoder::TextEncoder(std::unique_ptr<const Encoder> encoder,
                         std::unique_ptr<const WordPiece> tokenizer, ThreadPool* pool)
    : encoder_(std::move(encoder)),
      tokenizer_(std::move(tokenizer)),
      space_(*encoder_, pool),
      vector_(static_cast<size_t>(encoder_->dim())) {}

Result<std::unique_ptr<TextEncoder>> TextEncoder::Open(const std::filesystem::path& folder,
                                                       Backend* backend) {
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<ModelFile> file, OpenModelFile(folder));
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<const Encoder> encoder,
                           Encoder::Load(std::move(file), backend->kernels()));
  const std::string where = (folder / kFolderVocab).string();
  MOORING_ASSIGN_OR_RETURN(std::vector<std::string> words,
                           encoder->file().Get<std::vector<std::string>>(kFolderVocab));
  if (static_cast<int64_t>(words.size()) != encoder->arch().vocab_size) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "the words of the encoder are not those of its weights",
                 .where = where,
                 .expected = fmt::format("{} words", encoder->arch().vocab_size),
                 .found = fmt::format("{}", words.size()),
                 .remedy = "fetch the encoder again"};
  }
  MOORING_ASSIGN_OR_RETURN(std::unique_ptr<const WordPiece> tokenizer,
                           WordPiece::Create(std::move(words), where));
  return std::unique_ptr<TextEncoder>(
      new TextEncoder(std::move(encoder), std::move(tokenizer), &backend->pool()));
}

std::span<const float> TextEncoder::Encode(std::string_view text) {
  const std::vector<TokenId> ids =
      tokenizer_->Encode(text, static_cast<size_t>(encoder_->most_tokens()));
  encoder_->Encode(ids, &space_, vector_);
  return vector_;
}

}  // namespace mooring
