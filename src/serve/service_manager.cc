#include "serve/service_manager.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/files.h"
#include "base/log.h"

namespace mooring {
namespace {

int64_t NumberOf(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() && number > 0 ? number : 0;
}

}  // namespace

ServiceManager::ServiceManager(std::string_view notify_socket,
                               std::string_view watchdog_microseconds,
                               std::string_view watchdog_process) {
  const bool known = notify_socket.starts_with('/') || notify_socket.starts_with('@');
  if (!known || notify_socket.size() >= sizeof(sockaddr_un::sun_path)) return;
  socket_ = OwnedDescriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_.ok()) return;
  address_ = notify_socket;
  if (address_.front() == '@') address_.front() = '\0';
  const bool mine = watchdog_process.empty() || NumberOf(watchdog_process) == ::getpid();
  constexpr double kMicroseconds = 1e-6;
  if (mine) {
    watchdog_seconds_ = static_cast<double>(NumberOf(watchdog_microseconds)) * kMicroseconds;
  }
}

void ServiceManager::Tell(std::string_view state) const {
  if (address_.empty()) return;
  sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = {}};
  std::memcpy(to.sun_path, address_.data(), address_.size());
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address_.size());
  // A manager that does not listen must not hold the server up.
  if (::sendto(socket_.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
               reinterpret_cast<const sockaddr*>(&to), bytes) < 0) {
    spdlog::debug("the service manager was not told: {}", ErrnoText(errno));
  }
}

}  // namespace mooring
