// What `doctor` looks at: each finding says what, why it matters and what to do.
//
// Thread rule: functions of the machine, the disk and their arguments; one at a time.
#ifndef MOORING_APPS_DOCTOR_H_
#define MOORING_APPS_DOCTOR_H_

#include <string>
#include <string_view>
#include <vector>

#include "apps/command.h"
#include "apps/config.h"
#include "apps/settings.h"

namespace mooring {

struct Finding {
  enum class Level : uint8_t { kOk, kWarn, kFail };
  Level level = Level::kOk;
  std::string what;
  std::string why = {};
  std::string remedy = {};
};
std::string_view NameOf(Finding::Level level);

using Findings = std::vector<Finding>;

// doctor_machine.cc
void ExamineKernels(const Settings& settings, Findings* findings);
void ExamineCores(const Settings& settings, Findings* findings);
void ExamineSpeed(const Settings& settings, Findings* findings);
void ExamineMemory(uint64_t needed_bytes, Findings* findings);
void ExaminePages(Findings* findings);
void ExamineLimits(Findings* findings);
void ExamineClock(Findings* findings);
void ExamineTerminal(const Environment& environment, Findings* findings);

// doctor_files.cc. The memory that the configured model needs, 0 when it cannot be read.
uint64_t ExamineModel(const CommandContext& context, const Settings& settings, Findings* findings);
void ExamineFolders(const Environment& environment, Findings* findings);

// The numeric self-tests.
void ExamineNumbers(Findings* findings);

}  // namespace mooring

#endif  // MOORING_APPS_DOCTOR_H_
