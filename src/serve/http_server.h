// Listens, and carries requests to a handler and replies back: HTTP/1.1 on TCP or a Unix socket.
//
// What it refuses itself, before any handler: heads and bodies beyond the limits or too slow, any
// transfer coding but exactly "chunked", a length together with a coding, folded header lines, a
// missing or second Host, paths that are not plain. Each ends its connection, so that nothing can
// be smuggled behind it. Requests on one connection are answered in their order.
//
// Thread rule: Run belongs to one thread, on which `handle` is called; Stop from any thread.
#ifndef MOORING_SERVE_HTTP_SERVER_H_
#define MOORING_SERVE_HTTP_SERVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/http.h"

namespace mooring {

struct HttpLimits {
  size_t head_bytes = 16 << 10;
  size_t head_lines = 100;
  size_t body_bytes = 8 << 20;
  double head_seconds = 10.0;
  double body_bytes_per_second = 1024.0;
  double idle_seconds = 60.0;
  size_t connections = 1024;
  // A client that is this far behind its stream for so long has gone.
  size_t stalled_bytes = 256 << 10;
  double stalled_seconds = 30.0;
};

struct HttpCounters {
  std::atomic<int64_t> connections = 0;
  std::atomic<int64_t> refused = 0;
};

// Where to listen: "127.0.0.1:7437", "[::1]:7437", "unix:PATH".
struct ListenAddress {
  std::string host;  // without brackets
  uint16_t port = 0;
  std::string path;  // of a Unix socket; else empty
  bool loopback() const;
};
// kUsage for what is none.
Result<ListenAddress> ParseListenAddress(const std::string& text);

class HttpServer {
 public:
  using Handler = std::function<void(HttpRequest, std::shared_ptr<Reply>)>;
  // Of a request that is refused before the handler sees it: its body and type.
  using Refuse = std::function<HttpResponse(int status, const std::string& message)>;

  // Binds and listens. kFailed, kStateHeld (the address is taken) or kUsage. The socket file of a
  // server that has ended is replaced; mode 0600.
  static Result<std::unique_ptr<HttpServer>> Listen(const ListenAddress& address,
                                                    const HttpLimits& limits, Handler handler,
                                                    Refuse refuse);
  virtual ~HttpServer() = default;

  // The address it listens at; with a port that the system chose when 0 was asked for.
  virtual std::string address() const = 0;
  virtual const HttpCounters& counters() const = 0;
  // Until Stop.
  virtual void Run() = 0;
  virtual void Stop() = 0;
  // Calls `told` on the server's thread at each SIGTERM or SIGINT.
  virtual void OnSignal(std::function<void()> told) = 0;
  // Calls `task` on the server's thread about every `seconds`.
  virtual void Every(double seconds, std::function<void()> task) = 0;
};

}  // namespace mooring

#endif  // MOORING_SERVE_HTTP_SERVER_H_
