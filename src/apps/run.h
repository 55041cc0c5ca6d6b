// The `run` command on any input, so that tests can give it one.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_RUN_H_
#define MOORING_APPS_RUN_H_

#include <cstdio>

#include "apps/command.h"

namespace mooring {

Status RunOnceOn(CommandContext& context, std::FILE* input);

}  // namespace mooring

#endif  // MOORING_APPS_RUN_H_
