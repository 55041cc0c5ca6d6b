// The part of `doctor` that looks at files: the model and the folders.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "apps/doctor.h"
#include "apps/model_facts.h"
#include "apps/model_text.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "apps/state_folder.h"
#include "base/files.h"
#include "load/model_store.h"
#include "load/sha256.h"
#include "tensor/dtype.h"
#include "tensor/kv_view.h"

namespace mooring {
namespace {

using Level = Finding::Level;

constexpr uint64_t kOtherBytes = uint64_t{64} << 20;  // buffers, tables, the program
// Hashing this much takes about a second; a larger file is hashed with --deep only.
constexpr uint64_t kQuickHashBytes = uint64_t{1} << 30;
constexpr int64_t kDefaultWindow = 2048;

uint64_t NeededBytes(const ModelFile& file, const Arch& arch, const Settings& settings) {
  const auto trained = std::max<int64_t>(arch.trained_window, 1);
  const int64_t asked = settings.window_size.value_or(std::min(kDefaultWindow, trained));
  const auto window =
      static_cast<uint64_t>(settings.force_window ? asked : std::min(asked, trained));
  // A wrong name is a finding of its own.
  const Result<DType> key_value = ChooseKeyValue(settings);
  const PageLayout layout = {key_value.ok() ? *key_value : DType::kF16, arch.head_dim};
  return file.file_bytes() + kOtherBytes +
         window / kPageSlots * static_cast<uint64_t>(arch.layer_count()) *
             static_cast<uint64_t>(arch.kv_heads) * layout.page_bytes();
}

// The hash that the model in use should have, or nothing.
std::optional<std::string> WantedHash(const Settings& settings) {
  if (!settings.model.sha256.empty()) return settings.model.sha256;
  const auto store = ModelStore::OfThisUser();
  if (!store.ok()) return std::nullopt;
  const auto found = store->Find(settings.model.path);
  if (!found.ok() || !*found) return std::nullopt;
  return (**found).sha256;
}

void ExamineHash(const CommandContext& context, const Settings& settings, const ModelFile& file,
                 Findings* findings) {
  const std::optional<std::string> wanted = WantedHash(settings);
  if (!wanted) {
    findings->push_back({Level::kOk, "model hash: none to compare with"});
    return;
  }
  if (file.file_bytes() > kQuickHashBytes && !context.Has("deep")) {
    findings->push_back({Level::kOk, "model hash: not read, --deep does"});
    return;
  }
  const auto hash =
      Sha256OfFile(file.path(), [&](uint64_t /*done*/) { return !context.interrupted->load(); });
  if (!hash.ok()) {
    findings->push_back({Level::kFail, "model hash: " + hash.error().Message(),
                         "the file cannot be read to its end", "check the disk"});
  } else if (*hash != *wanted) {
    findings->push_back({Level::kFail, fmt::format("model hash: {} instead of {}", *hash, *wanted),
                         "the file has changed since it was fetched",
                         fmt::format("mooring rm {0} && mooring pull {0}", settings.model.path)});
  } else {
    findings->push_back({Level::kOk, fmt::format("model hash: right ({})", hash->substr(0, 12))});
  }
}

void ExamineTemplate(const Settings& settings, const ModelText& model, Findings* findings) {
  std::vector<std::string> warnings;
  const auto chat =
      ChooseChatTemplate(settings.model.chat_template, model.vocab, *model.tokenizer, &warnings);
  const ChatMessage message = {"user", "hello"};
  const auto fault = [&]() -> std::optional<Error> {
    if (!chat.ok()) return chat.error();
    const auto first = chat->Render({&message, 1}, true);
    if (!first.ok()) return first.error();
    const auto next = chat->RenderDelta(std::nullopt, {&message, 1});
    if (!next.ok()) return next.error();
    return std::nullopt;
  }();
  if (fault) {
    findings->push_back({Level::kFail, "template: " + fault->Message(),
                         "messages cannot be put in front of the model",
                         "choose another with --template: chatml, plain or a file"});
  } else if (!warnings.empty()) {
    findings->push_back({Level::kWarn, "template: " + warnings[0],
                         "a model that was not trained on plain lines answers worse",
                         "choose a template with --template"});
  } else {
    findings->push_back({Level::kOk, "template: renders first and later turns"});
  }
}

std::filesystem::path ExistingAncestor(std::filesystem::path path) {
  std::error_code ignored;
  while (!path.empty() && !std::filesystem::exists(path, ignored) && path != path.parent_path()) {
    path = path.parent_path();
  }
  return path;
}

// Writes, syncs and removes a file in `folder`; 0 or the error number.
int TrySync(const std::filesystem::path& folder) {
  std::string name = (folder / ".mooring-doctor-XXXXXX").string();
  const int descriptor = mkstemp(name.data());
  if (descriptor < 0) return errno;
  constexpr char kByte = 'x';
  const bool written = write(descriptor, &kByte, 1) == 1 && fsync(descriptor) == 0;
  const int error = written ? 0 : errno;
  close(descriptor);
  unlink(name.c_str());
  return error;
}

void ExamineFolder(const std::string& what, const std::filesystem::path& folder,
                   const std::string& why, const std::string& remedy, Findings* findings) {
  constexpr uint64_t kLittleSpace = uint64_t{500} << 20;
  const std::filesystem::path existing = ExistingAncestor(folder);
  const std::string shown = fmt::format("{}: {}", what, SafeText(folder.string()));
  if (const int error = TrySync(existing); error != 0) {
    findings->push_back({Level::kFail,
                         fmt::format("{} cannot be written: {}", shown, ErrnoText(error)), why,
                         remedy});
    return;
  }
  std::error_code failed;
  const auto space = std::filesystem::space(existing, failed);
  if (!failed && space.available < kLittleSpace) {
    findings->push_back({Level::kWarn,
                         fmt::format("{} has {} left", shown, HumanBytes(space.available)), why,
                         "free some space on that disk"});
    return;
  }
  findings->push_back({Level::kOk, shown + (existing == folder ? ", writable, syncs"
                                                               : ", not there yet, can be made")});
}

}  // namespace

uint64_t ExamineModel(const CommandContext& context, const Settings& settings, Findings* findings) {
  const std::string name = SafeText(settings.model.path);
  const auto model = OpenModelText(settings.model.path);
  if (!model.ok()) {
    const Error& error = model.error();
    const bool missing = error.kind == ErrorKind::kNotFound;
    findings->push_back({Level::kFail, fmt::format("model {}: {}", name, error.Message()),
                         "there is nothing to talk to",
                         missing ? "mooring pull smollm2, or name another model"
                                 : "mooring verify says more; pull it again"});
    return 0;
  }
  const ModelFacts facts = FactsOf(*model->file);
  if (!facts.arch) {
    findings->push_back({Level::kFail, fmt::format("model {}: {}", name, facts.why_no_arch),
                         "this build cannot run it", "choose another model"});
    return 0;
  }
  findings->push_back({Level::kOk, fmt::format("model {}: {}, {}", name, facts.weight_type,
                                               HumanBytes(model->file->file_bytes()))});
  ExamineHash(context, settings, *model->file, findings);
  ExamineTemplate(settings, *model, findings);
  return NeededBytes(*model->file, *facts.arch, settings);
}

void ExamineFolders(const Environment& environment, Findings* findings) {
  const auto store = ModelStore::OfThisUser();
  if (store.ok()) {
    ExamineFolder("cache folder", store->root(), "models cannot be fetched",
                  "set MOORING_HOME to a folder of yours", findings);
  } else {
    findings->push_back({Level::kFail, "cache folder: " + store.error().Message(),
                         "models cannot be fetched", "set MOORING_HOME"});
  }
  if (const auto state = StateFolder(environment)) {
    ExamineFolder("state folder", *state, "conversations and history cannot be kept",
                  "set XDG_STATE_HOME to a folder of yours", findings);
  } else {
    findings->push_back({Level::kWarn, "state folder: none",
                         "conversations and history cannot be kept", "set HOME"});
  }
}

}  // namespace mooring
