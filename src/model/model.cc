#include "model/model.h"

#include <fmt/format.h>

namespace mooring {

Result<std::unique_ptr<Model>> Model::Load(std::unique_ptr<ModelFile> file, Precision precision,
                                           Backend* backend) {
  std::unique_ptr<Model> model(new Model(std::move(file), precision, backend));
  const ModelFile& source = *model->file_;
  MOORING_ASSIGN_OR_RETURN(const Family* family, FindFamily(source));
  MOORING_ASSIGN_OR_RETURN(model->arch_, family->read_arch(source));
  const NamedTensor* embedding = source.FindTensor(family->names.embedding);
  if (embedding == nullptr || embedding->view.rank != 2) {
    return Error{
        .kind = ErrorKind::kModelInvalid,
        .what = "the model has no usable embedding",
        .where = fmt::format("{}, tensor {}", source.path().string(), family->names.embedding),
        .expected = "a matrix [vocabulary, embedding]",
        .found = embedding == nullptr ? "no such tensor" : "another rank"};
  }
  model->arch_.vocab_size = embedding->view.rows();
  MOORING_ASSIGN_OR_RETURN(
      model->weights_, BindWeights(source, *family, model->arch_, precision, backend->kernels()));
  return model;
}

}  // namespace mooring
