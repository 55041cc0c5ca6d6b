// The server whole: listener, API and the way it ends.
//
// Thread rule: Run on the thread that made it.
#ifndef MOORING_SERVE_SERVER_H_
#define MOORING_SERVE_SERVER_H_

#include <atomic>
#include <memory>
#include <string>

#include "base/result.h"
#include "serve/api.h"
#include "serve/http_server.h"
#include "serve/service_manager.h"
#include "talk/host.h"

namespace mooring {

struct ServerOptions {
  ListenAddress listen;
  HttpLimits limits;
  ApiOptions api;
  // After the first signal turns may take so long to end; then they are cut short.
  double drain_seconds = 300.0;
  ServiceManager manager;  // is told when the server is ready, ends, and that its engine lives
};

class Server {
 public:
  // Listens. kUsage for an address beyond this machine without API keys. `host` outlives this.
  static Result<std::unique_ptr<Server>> Create(ServerOptions options, Host* host);

  ~Server();

  std::string address() const { return http_->address(); }
  // Until SIGTERM or SIGINT; from then on no new turns, and those that run end. A second signal
  // cuts them short.
  void Run();

 private:
  Server(ServerOptions options, Host* host);
  void Signalled();
  void Tick();
  void FeedWatchdog();

  ServerOptions options_;
  Host* host_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<HttpServer> http_;
  double draining_since_ = 0.0;
  bool was_quiet_ = false;
  double fed_ = 0.0;
  std::atomic<bool> engine_answered_ = true;
};

}  // namespace mooring

#endif  // MOORING_SERVE_SERVER_H_
