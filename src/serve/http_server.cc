#include "serve/http_server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <charconv>
#include <chrono>
#include <csignal>
#include <utility>
#include <variant>

#include "base/log.h"
#include "serve/http_connection.h"

namespace mooring {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr int kBacklog = 512;
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr std::string_view kUnixPrefix = "unix:";
constexpr mode_t kPrivateSocket = 0600;

class AsioServer : public HttpServer {
 public:
  AsioServer(const HttpLimits& limits, Handler handler, Refuse refuse)
      : limits_(limits),
        handler_(std::move(handler)),
        refuse_(std::move(refuse)),
        signals_(io_, SIGTERM, SIGINT) {}
  ~AsioServer() override {
    if (!socket_path_.empty()) ::unlink(socket_path_.c_str());
  }

  Status Open(const ListenAddress& address) {
    return address.path.empty() ? OpenTcp(address) : OpenUnix(address);
  }

  std::string address() const override { return address_; }
  const HttpCounters& counters() const override { return counters_; }
  void Run() override {
    Accept();
    // A handler that runs out of memory costs its request, not the server.
    for (;;) {
      try {
        io_.run();
        return;
      } catch (const std::exception& error) {
        spdlog::error("a request failed: {}", error.what());
      }
    }
  }
  void Stop() override { io_.stop(); }
  void OnSignal(std::function<void()> told) override {
    signals_.async_wait([this, told](const error_code& error, int) {
      if (error) return;
      told();
      OnSignal(told);
    });
  }
  void Every(double seconds, std::function<void()> task) override {
    auto timer = std::make_shared<asio::steady_timer>(io_);
    Repeat(timer, std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)), std::move(task));
  }

 private:
  static Error Refused(const std::string& where, const error_code& error) {
    const bool taken = error == asio::error::address_in_use;
    return Error{.kind = taken ? ErrorKind::kStateHeld : ErrorKind::kFailed,
                 .what = "cannot listen",
                 .where = where,
                 .found = error.message(),
                 .remedy = taken ? "end the program that listens there, or choose another --listen"
                                 : "choose another --listen"};
  }

  Status OpenTcp(const ListenAddress& address) {
    const std::string where = fmt::format("{}:{}", address.host, address.port);
    error_code error;
    const auto ip =
        asio::ip::make_address(address.host == "localhost" ? "127.0.0.1" : address.host, error);
    if (error) return Refused(where, error);
    const asio::ip::tcp::endpoint endpoint(ip, address.port);
    auto& acceptor = acceptor_.emplace<asio::ip::tcp::acceptor>(io_);
    (void)acceptor.open(endpoint.protocol(), error);
    if (!error) (void)acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) (void)acceptor.bind(endpoint, error);
    if (!error) (void)acceptor.listen(kBacklog, error);
    if (error) return Refused(where, error);
    const auto bound = acceptor.local_endpoint(error);
    const std::string host = bound.address().to_string();
    address_ =
        fmt::format("http://{}:{}", ip.is_v6() ? fmt::format("[{}]", host) : host, bound.port());
    return {};
  }

  Status OpenUnix(const ListenAddress& address) {
    const std::string where = fmt::format("{}{}", kUnixPrefix, address.path);
    if (address.path.size() >= sizeof(sockaddr_un::sun_path)) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "the path of the socket is too long",
                   .where = where,
                   .expected = fmt::format("at most {} bytes", sizeof(sockaddr_un::sun_path) - 1)};
    }
    error_code error;
    const asio::local::stream_protocol::endpoint endpoint(address.path);
    asio::local::stream_protocol::socket other(io_);
    (void)other.connect(endpoint, error);
    if (!error) return Refused(where, asio::error::address_in_use);
    struct stat status = {};
    if (::lstat(address.path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
      ::unlink(address.path.c_str());  // of a server that is no more
    }
    auto& acceptor = acceptor_.emplace<asio::local::stream_protocol::acceptor>(io_);
    const mode_t before = ::umask(S_IRWXG | S_IRWXO);
    error.clear();
    (void)acceptor.open(endpoint.protocol(), error);
    if (!error) (void)acceptor.bind(endpoint, error);
    ::umask(before);
    if (!error) (void)acceptor.listen(kBacklog, error);
    if (error) return Refused(where, error);
    (void)::chmod(address.path.c_str(), kPrivateSocket);
    socket_path_ = address.path;
    address_ = where;
    return {};
  }

  void Accept() {
    if (accepting_ || static_cast<size_t>(counters_.connections) >= limits_.connections) return;
    accepting_ = true;
    std::visit(
        [this](auto& acceptor) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(acceptor)>, std::monostate>) {
            acceptor.async_accept([this](const error_code& error, auto socket) {
              accepting_ = false;
              if (error) return Pause();
              ++counters_.connections;
              StartConnection(asio::generic::stream_protocol::socket(std::move(socket)),
                              {limits_, handler_, refuse_, &counters_}, [this] {
                                --counters_.connections;
                                if (!io_.stopped()) asio::post(io_, [this] { Accept(); });
                              });
              Accept();
            });
          }
        },
        acceptor_);
  }

  // Out of descriptors, most likely: those that are open go on, and some will close.
  void Pause() {
    auto timer = std::make_shared<asio::steady_timer>(io_, kPause);
    timer->async_wait([this, timer](const error_code&) { Accept(); });
  }

  static void Repeat(const std::shared_ptr<asio::steady_timer>& timer,
                     std::chrono::milliseconds pause, std::function<void()> task) {
    timer->expires_after(pause);
    timer->async_wait([timer, pause, task = std::move(task)](const error_code& error) mutable {
      if (error) return;
      task();
      Repeat(timer, pause, std::move(task));
    });
  }

  const HttpLimits limits_;
  const Handler handler_;
  const Refuse refuse_;
  HttpCounters counters_;
  std::string address_;
  std::string socket_path_;
  asio::io_context io_{1};
  asio::signal_set signals_;
  std::variant<std::monostate, asio::ip::tcp::acceptor, asio::local::stream_protocol::acceptor>
      acceptor_;
  bool accepting_ = false;
};

}  // namespace

bool ListenAddress::loopback() const {
  return !path.empty() || host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<ListenAddress> ParseListenAddress(const std::string& text) {
  ListenAddress address;
  const Error bad = {.kind = ErrorKind::kUsage,
                     .what = "not an address to listen at",
                     .where = "server.listen",
                     .expected = "ADDRESS:PORT, [ADDRESS]:PORT or unix:PATH",
                     .found = text};
  if (text.starts_with(kUnixPrefix)) {
    address.path = text.substr(kUnixPrefix.size());
    if (address.path.empty()) return bad;
    return address;
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0) return bad;
  address.host = text.substr(0, colon);
  if (address.host.starts_with('[') && address.host.ends_with(']')) {
    address.host = address.host.substr(1, address.host.size() - 2);
  } else if (address.host.find(':') != std::string::npos) {
    return bad;
  }
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data() + colon + 1, end, address.port);
  if (error != std::errc() || last != end) return bad;
  return address;
}

Result<std::unique_ptr<HttpServer>> HttpServer::Listen(const ListenAddress& address,
                                                       const HttpLimits& limits, Handler handler,
                                                       Refuse refuse) {
  auto server = std::make_unique<AsioServer>(limits, std::move(handler), std::move(refuse));
  MOORING_RETURN_IF_ERROR(server->Open(address));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace mooring
