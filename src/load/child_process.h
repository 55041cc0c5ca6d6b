// Runs another program and waits for it.
//
// The program gets no input, the default signals, and our process group, so that Ctrl-C in a
// terminal reaches both. Its output is read only for the message of a failure.
//
// Thread rule: any thread may call.
#ifndef MOORING_LOAD_CHILD_PROCESS_H_
#define MOORING_LOAD_CHILD_PROCESS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace mooring {

struct ChildResult {
  int exit_code = 0;             // 128 + the number of the signal that ended it
  std::string output_tail = {};  // the last 4 KiB of what it wrote to either output
};

// `arguments[0]` is looked up in PATH; `environment` is added to ours. `keep_running` (may be
// empty) is called about ten times a second; false interrupts the program, kills it when it does
// not go within 3 seconds, and returns kInterrupted. kNotFound when there is no such program.
Result<ChildResult> RunChild(const std::vector<std::string>& arguments,
                             const std::map<std::string, std::string>& environment,
                             const std::function<bool()>& keep_running);

}  // namespace mooring

#endif  // MOORING_LOAD_CHILD_PROCESS_H_
