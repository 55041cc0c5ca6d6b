// What signals do to `mooring`: Ctrl-C asks the command to end, SIGTERM ends it, a closed pipe is
// an error of the write and not a signal.
//
// A handler can only reach globals, so this file has the program's only mutable one.
//
// Thread rule: once, at start, from the main thread.
#ifndef MOORING_APPS_SIGNALS_H_
#define MOORING_APPS_SIGNALS_H_

#include <atomic>

namespace mooring {

// The flag that SIGINT sets. A second one while it is set ends the process with 130; SIGTERM ends
// it at once with 143. Both first give the terminal back as it was.
std::atomic<bool>* InstallSignalHandlers();

}  // namespace mooring

#endif  // MOORING_APPS_SIGNALS_H_
