#include "load/verify.h"

#include <memory>
#include <utility>

#include "load/model_file.h"
#include "load/open.h"
#include "load/quote.h"

namespace mooring {
namespace {

Error OtherFile(const std::filesystem::path& path, const std::string& wanted, std::string found) {
  return Error{.kind = ErrorKind::kFaultFound,
               .what = "the model file is not the one that was expected",
               .where = path.string(),
               .expected = "SHA-256 " + wanted,
               .found = std::move(found),
               .remedy = "remove it and pull it again"};
}

}  // namespace

Result<VerifyReport> VerifyModelFile(const std::filesystem::path& path,
                                     const std::optional<std::string>& sha256,
                                     const StepFunction& step, std::span<const StoredFile> files) {
  if (sha256.has_value() && !IsSha256(*sha256)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "not a SHA-256",
                 .expected = "64 lower-case hex digits",
                 .found = QuoteBytes(*sha256)};
  }
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<ModelFile> file, OpenModelFile(path));
  VerifyReport report{.path = path,
                      .container = file->container(),
                      .file_bytes = file->file_bytes(),
                      .key_count = file->values().size(),
                      .tensor_count = file->tensors().size()};
  auto architecture = file->Get<std::string>("general.architecture");
  if (architecture.ok()) report.architecture = std::move(architecture).value();
  for (const NamedTensor& tensor : file->tensors()) {
    report.tensor_bytes += static_cast<uint64_t>(tensor.view.bytes());
    ++report.tensors_per_type[tensor.view.dtype];
  }
  // Of a folder the weights, then what stands beside them.
  MOORING_ASSIGN_OR_RETURN(report.sha256, Sha256OfFile(file->path(), step));
  if (sha256.has_value() && report.sha256 != *sha256) {
    return OtherFile(file->path(), *sha256, report.sha256);
  }
  for (const StoredFile& part : files) {
    const std::filesystem::path at = path / part.name;
    if (at == file->path()) continue;
    MOORING_ASSIGN_OR_RETURN(std::string found, Sha256OfFile(at));
    if (found != part.sha256) return OtherFile(at, part.sha256, std::move(found));
    report.file_bytes += part.bytes;
  }
  return report;
}

}  // namespace mooring
