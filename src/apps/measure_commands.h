// The commands that measure: `eval ppl`, `eval recall` (quality) and `bench` (speed). Their rows
// for the table in commands.cc.
//
// Thread rule: pure functions.
#ifndef MOORING_APPS_MEASURE_COMMANDS_H_
#define MOORING_APPS_MEASURE_COMMANDS_H_

#include "apps/command.h"

namespace mooring {

Command EvalPplCommand();
Command EvalRecallCommand();
Command BenchCommand();

}  // namespace mooring

#endif  // MOORING_APPS_MEASURE_COMMANDS_H_
