// What `--explain-plan` prints: how this machine will run this model, and why.
//
// Thread rule: as Backend's pool.
#ifndef MOORING_APPS_PLAN_REPORT_H_
#define MOORING_APPS_PLAN_REPORT_H_

#include <cstdio>

#include "apps/runtime.h"

namespace mooring {

// Per kind of tensor its format, arithmetic and size; per phase what a step moves and multiplies,
// and how many tokens per second the measured ceilings of the machine allow at the most. Takes less
// than a second.
void PrintPlan(std::FILE* file, bool color, const Settings& settings, const Runtime& runtime);

}  // namespace mooring

#endif  // MOORING_APPS_PLAN_REPORT_H_
