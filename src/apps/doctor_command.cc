// doctor: everything that can be wrong with this installation, each with what to do.
#include <algorithm>
#include <array>
#include <utility>

#include "apps/commands.h"
#include "apps/doctor.h"
#include "apps/output.h"

namespace mooring {
namespace {

using Level = Finding::Level;

// The settings that hold; where they are invalid, the built-in ones, so that the rest is examined.
Settings ExamineConfig(const ConfigInputs& inputs, Findings* findings) {
  const auto config = LoadConfig(inputs);
  if (!config.ok()) {
    findings->push_back({Level::kFail, "settings: " + config.error().Message(),
                         "no command that needs them starts", "correct the place that is named"});
    return {};
  }
  const std::string file = config->file.empty() ? "no file" : SafeText(config->file.string());
  findings->push_back({Level::kOk, fmt::format("settings: valid, {}", file)});
  for (const std::string& warning : config->warnings) {
    findings->push_back({Level::kWarn, "settings: " + warning, "a setting has no effect",
                         "change it where it comes from (mooring config show)"});
  }
  return config->settings;
}

Findings Examine(const CommandContext& context) {
  Findings findings;
  const ConfigInputs& inputs = *context.config_inputs;
  const Settings settings = ExamineConfig(inputs, &findings);
  ExamineKernels(settings, &findings);
  ExamineCores(settings, &findings);
  ExamineSpeed(settings, &findings);
  const uint64_t needed = ExamineModel(context, settings, &findings);
  ExamineMemory(needed, &findings);
  ExaminePages(&findings);
  ExamineFolders(inputs.environment, &findings);
  ExamineLimits(&findings);
  ExamineClock(&findings);
  ExamineTerminal(inputs.environment, &findings);
  if (context.Has("deep")) ExamineNumbers(&findings);
  return findings;
}

void PrintFinding(const CommandContext& context, const Finding& finding) {
  constexpr std::array<std::string_view, 3> kColors = {"\x1b[32m", "\x1b[33m", "\x1b[31m"};
  const std::string_view name = NameOf(finding.level);
  const std::string_view color = kColors[static_cast<size_t>(finding.level)];
  Print(context.out, "{}{:4}{}  {}\n", context.global.color ? color : "", name,
        context.global.color ? "\x1b[0m" : "", SafeText(finding.what));
  if (!finding.why.empty()) Print(context.out, "      why: {}\n", SafeText(finding.why));
  if (!finding.remedy.empty()) Print(context.out, "      do:  {}\n", SafeText(finding.remedy));
}

Status RunDoctor(CommandContext& context) {
  const Findings findings = Examine(context);
  if (context.interrupted->load()) {
    return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"};
  }
  const auto failures = std::ranges::count(findings, Level::kFail, &Finding::level);
  const auto warnings = std::ranges::count(findings, Level::kWarn, &Finding::level);
  if (context.global.json) {
    Json json = {{"ok", failures == 0}, {"findings", Json::array()}};
    for (const Finding& finding : findings) {
      json["findings"].push_back({{"level", NameOf(finding.level)},
                                  {"what", finding.what},
                                  {"why", finding.why},
                                  {"do", finding.remedy}});
    }
    PrintJson(context.out, json);
  } else {
    for (const Finding& finding : findings) PrintFinding(context, finding);
  }
  if (failures == 0) {
    if (!context.global.json && !context.global.quiet) {
      Print(context.err, "{} checks, {} warnings, no failure\n", findings.size(), warnings);
    }
    return {};
  }
  return Error{.kind = ErrorKind::kFaultFound,
               .what = fmt::format("{} of {} checks failed", failures, findings.size())};
}

constexpr std::array<CommandFlag, 1> kDoctorFlags = {{
    {"deep", 0, "", "also compare the kernels with each other on random numbers"},
}};

}  // namespace

std::string_view NameOf(Finding::Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kWarn:
      return "warn";
    case Level::kFail:
      return "fail";
  }
  return "";
}

Command DoctorCommand() {
  return {.name = "doctor",
          .arguments = "",
          .summary = "check machine, settings, model and folders; each finding has a remedy",
          .examples = "mooring doctor\nmooring doctor --deep --json",
          .loads_model = true,
          .flags = kDoctorFlags,
          .run = RunDoctor,
          .uses_config = false};
}

}  // namespace mooring
