// Which table of kernels this process uses: the best that the machine can run, or the one that
// MOORING_ISA or --isa names. The only place where that choice is made.
//
// Thread rule: pure functions.
#ifndef MOORING_KERNELS_SELECT_H_
#define MOORING_KERNELS_SELECT_H_

#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernels/kernels.h"

namespace mooring {

// The tables this machine can run, best first; never empty (`ref` is always there).
std::vector<const Kernels*> RunnableKernels();

// The table called `name`; "" and "auto" mean what the environment variable MOORING_ISA names, or
// the best when it is unset or says so too. kUsage with the runnable names when there is no such
// table or the machine cannot run it.
Result<const Kernels*> SelectKernels(std::string_view name);

}  // namespace mooring

#endif  // MOORING_KERNELS_SELECT_H_
