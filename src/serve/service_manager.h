// Tells the manager that started this process how it stands, by the protocol of sd_notify(3):
// datagrams to the socket that $NOTIFY_SOCKET names. Without one every call does nothing.
//
// Thread rule: any thread; const once made.
#ifndef MOORING_SERVE_SERVICE_MANAGER_H_
#define MOORING_SERVE_SERVICE_MANAGER_H_

#include <string>
#include <string_view>

#include "base/owned_descriptor.h"

namespace mooring {

class ServiceManager {
 public:
  ServiceManager() = default;  // nobody listens
  // The values of $NOTIFY_SOCKET, $WATCHDOG_USEC and $WATCHDOG_PID; empty where they are not set.
  // What makes no sense counts as not set: a server runs without its manager's ear.
  ServiceManager(std::string_view notify_socket, std::string_view watchdog_microseconds,
                 std::string_view watchdog_process);

  void Ready() const { Tell("READY=1"); }
  void Stopping() const { Tell("STOPPING=1\nSTATUS=ending: no new turns"); }
  void Alive() const { Tell("WATCHDOG=1"); }
  // Within how many seconds it wants to hear that this process lives; 0: never.
  double watchdog_seconds() const { return watchdog_seconds_; }

 private:
  void Tell(std::string_view state) const;

  OwnedDescriptor socket_;
  std::string address_;  // as in sockaddr_un: an abstract one begins with NUL
  double watchdog_seconds_ = 0.0;
};

}  // namespace mooring

#endif  // MOORING_SERVE_SERVICE_MANAGER_H_
