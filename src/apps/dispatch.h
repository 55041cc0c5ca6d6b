// From the command line to an exit code: parses, reads the configuration, runs the command, reports
// its error.
//
// Nothing here ends the process or throws, so that tests can run every command in place.
//
// Thread rule: one call at a time (the log is set up for the whole process).
#ifndef MOORING_APPS_DISPATCH_H_
#define MOORING_APPS_DISPATCH_H_

#include <atomic>
#include <cstdio>
#include <span>
#include <string>

#include "apps/config.h"

namespace mooring {

struct Program {
  std::FILE* out = stdout;
  std::FILE* err = stderr;
  Environment environment;
  std::atomic<bool>* interrupted = nullptr;  // null: nobody interrupts
  std::filesystem::path system_config = "/etc/mooring/config.yaml";
};

// `arguments` without the program's name; the result is the exit code.
int RunMooring(std::span<const std::string> arguments, const Program& program);

}  // namespace mooring

#endif  // MOORING_APPS_DISPATCH_H_
