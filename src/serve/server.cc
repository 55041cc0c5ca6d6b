#include "serve/server.h"

#include <future>
#include <utility>

#include "base/clock.h"
#include "base/log.h"

namespace mooring {
namespace {

constexpr double kTickSeconds = 0.25;
constexpr double kFeedsPerWatch = 3.0;
constexpr double kLameSeconds = 1.0;

}  // namespace

Result<std::unique_ptr<Server>> Server::Create(ServerOptions options, Host* host) {
  if (!options.listen.loopback() && !options.api.keys.needed()) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "anyone who can reach this address could use the server",
                 .where = "server.listen",
                 .expected = "127.0.0.1, [::1] or unix:PATH, unless there are API keys",
                 .found = options.listen.host,
                 .remedy = "give --api-key-file FILE, or listen on 127.0.0.1"};
  }
  std::unique_ptr<Server> server(new Server(std::move(options), host));
  Api* api = server->api_.get();
  MOORING_ASSIGN_OR_RETURN(
      server->http_,
      HttpServer::Listen(
          server->options_.listen, server->options_.limits,
          [api](HttpRequest request, std::shared_ptr<Reply> reply) {
            api->Handle(std::move(request), std::move(reply));
          },
          [api](int status, const std::string& message) { return api->Refuse(status, message); }));
  api->Watch(server->http_.get());
  return server;
}

Server::Server(ServerOptions options, Host* host)
    : options_(std::move(options)),
      host_(host),
      api_(std::make_unique<Api>(std::move(options_.api), host)) {}

Server::~Server() {
  // No reply may outlive what carries it.
  api_->Finish();
  std::promise<void> idle;
  host_->WithStore(
      {[](Store&) {},
       [&](const Status&) { host_->Look({}, [&](const auto&) { idle.set_value(); }); }});
  idle.get_future().wait();
}

void Server::Run() {
  http_->OnSignal([this] { Signalled(); });
  http_->Every(kTickSeconds, [this] { Tick(); });
  options_.manager.Ready();
  http_->Run();
}

void Server::Signalled() {
  if (draining_since_ > 0.0) {
    host_->CancelAll();
    return;
  }
  spdlog::info("ending: {} turns are still under way", host_->turns());
  draining_since_ = MonotonicSeconds();
  options_.manager.Stopping();
  host_->Drain();
}

// Only after the engine's thread has answered since the last time: a server whose listener lives
// and whose engine hangs is to be started again.
void Server::FeedWatchdog() {
  const double within = options_.manager.watchdog_seconds();
  const double now = MonotonicSeconds();
  if (within == 0.0 || now - fed_ < within / kFeedsPerWatch || !engine_answered_) return;
  fed_ = now;
  options_.manager.Alive();
  engine_answered_ = false;
  host_->Look({}, [this](const auto&) { engine_answered_ = true; });
}

void Server::Tick() {
  api_->Tick();
  FeedWatchdog();
  if (draining_since_ == 0.0) return;
  // Not at once: whoever asks whether we are ready must have had the time to hear that we are not.
  const double drained = MonotonicSeconds() - draining_since_;
  if (drained > options_.drain_seconds) host_->CancelAll();
  // A tick later, so that the last bytes are out.
  const bool quiet = drained > kLameSeconds && host_->turns() == 0;
  if (quiet && was_quiet_) http_->Stop();
  was_quiet_ = quiet;
}

}  // namespace mooring
