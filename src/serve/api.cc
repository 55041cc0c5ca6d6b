#include "serve/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "serve/json_body.h"

namespace mooring {
namespace {

std::vector<std::string_view> Split(std::string_view path) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    parts.push_back(path.substr(at + 1, end - at - 1));
    at = end;
  }
  return parts;
}

// Whether `path` is `pattern` with something in the place of each {}, which goes to `filled`.
bool Fits(std::string_view pattern, std::string_view path, std::vector<std::string>* filled) {
  const auto wanted = Split(pattern);
  const auto given = Split(path);
  if (wanted.size() != given.size()) return false;
  filled->clear();
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == "{}") {
      const auto decoded = PercentDecoded(given[i], false);
      if (!decoded || decoded->empty()) return false;
      filled->push_back(*decoded);
    } else if (wanted[i] != given[i]) {
      return false;
    }
  }
  return true;
}

bool IsLoopbackName(std::string_view host) {
  const size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos) {
    host = host.substr(0, colon);
  }
  return host == "localhost" || host == "[::1]" || host.starts_with("127.");
}

bool IsUnixListener(const HttpServer* server) {
  return server != nullptr && server->address().starts_with("unix:");
}

}  // namespace

const std::vector<Api::Route>& Api::Routes() {
  static const std::vector<Route> kRoutes = {
      {"GET", "/", &Api::Page, true, true},
      {"GET", "/assets/{}", &Api::Page, true, true},
      {"GET", "/health", &Api::Health, true, true},
      {"GET", "/ready", &Api::Ready, true, true},
      {"GET", "/metrics", &Api::Metrics, false, true},
      {"GET", "/props", &Api::Props, false, true},
      {"GET", "/v1/models", &Api::Models, false, true},
      {"GET", "/v1/models/{}", &Api::Model, false, true},
      {"POST", "/tokenize", &Api::Tokenize},
      {"POST", "/detokenize", &Api::Detokenize},
      {"POST", "/apply-template", &Api::ApplyTemplate},
      {"POST", "/v1/chat/completions", &Api::ChatCompletions, false, false, true, true},
      {"POST", "/v1/chat/completions/input_tokens", &Api::InputTokens},
      {"POST", "/v1/completions", &Api::Completions, false, false, true, true},
      {"POST", "/v1/responses", &Api::Responses, false, false, true, true},
      {"GET", "/v1/responses/{}", &Api::GetResponse},
      {"POST", "/v1/conversations", &Api::CreateConversation},
      {"GET", "/v1/conversations", &Api::ListConversations},
      {"POST", "/v1/conversations/import", &Api::ImportConversation, false, false, false},
      {"GET", "/v1/conversations/{}", &Api::GetConversation},
      {"POST", "/v1/conversations/{}", &Api::UpdateConversation},
      {"DELETE", "/v1/conversations/{}", &Api::DeleteConversation},
      {"GET", "/v1/conversations/{}/items", &Api::ListItems},
      {"POST", "/v1/conversations/{}/items", &Api::AddItems},
      {"POST", "/v1/conversations/{}/fork", &Api::ForkConversation},
      {"POST", "/v1/conversations/{}/rewind", &Api::RewindConversation},
      {"GET", "/v1/conversations/{}/export", &Api::ExportConversation},
      {"GET", "/v1/conversations/{}/memory", &Api::Memory},
  };
  return kRoutes;
}

Api::Api(ApiOptions options, Host* host)
    : options_(std::move(options)),
      limits_(options_.limits),
      host_(host),
      work_(std::make_unique<WorkQueue>(options_.work_queue)) {}

// A page of somebody else's must not reach a server on this machine through the user's browser.
std::optional<ApiError> Api::CheckOrigin(const HttpRequest& request) const {
  const std::string_view host = request.Header("host");
  // With keys, a foreign name gets nobody any further.
  if (!options_.keys.needed() && !IsUnixListener(server_) && !IsLoopbackName(host)) {
    return ApiError{421, "host_not_allowed",
                    "without API keys the server answers to localhost only", ""};
  }
  const std::string_view origin = request.Header("origin");
  if (origin.empty()) return std::nullopt;
  const size_t scheme = origin.find("://");
  if (scheme != std::string_view::npos && origin.substr(scheme + 3) == host) return std::nullopt;
  return ApiError{403, "origin_not_allowed", "pages of other origins may not use this server", ""};
}

std::optional<ApiError> Api::CheckLimits(const Route& route, Call* call) {
  if (route.fast) return std::nullopt;
  if (auto fault = limits_.CountRequest(call->owner, MonotonicSeconds())) return fault;
  if (!route.turn) return std::nullopt;
  auto place = limits_.TakePlace(call->owner);
  if (const auto* fault = std::get_if<ApiError>(&place)) return *fault;
  call->place = std::get<OwnerLimits::Place>(std::move(place));
  return std::nullopt;
}

void Api::Handle(HttpRequest request, std::shared_ptr<Reply> reply) {
  Call call = {.request = std::move(request),
               .reply = std::move(reply),
               .owner = {},
               .parts = {},
               .route = "none",
               .place = {}};
  if (const auto fault = CheckOrigin(call.request)) return SendError(call, *fault);
  const Route* route = nullptr;
  bool other_method = false;
  for (const Route& candidate : Routes()) {
    if (!Fits(candidate.pattern, call.request.path, &call.parts)) continue;
    if (candidate.method == call.request.method) {
      route = &candidate;
      break;
    }
    other_method = true;
  }
  if (route != nullptr) call.route = route->pattern;
  if (route == nullptr || !route->open) {
    const auto owner = options_.keys.OwnerOf(call.request.Header("authorization"));
    if (!owner) {
      return SendError(call, {401, "invalid_api_key",
                              "this server needs an API key, sent as "
                              "'Authorization: Bearer KEY'",
                              ""});
    }
    call.owner = *owner;
  }
  if (route == nullptr) {
    return SendError(
        call, {other_method ? 405 : 404, "unknown_route",
               fmt::format("there is no {} {} here; docs/api.md lists the routes",
                           call.request.method.substr(0, 16), call.request.path.substr(0, 128)),
               ""});
  }
  const std::string_view type = call.request.Header("content-type");
  if (call.request.method == "POST" && route->body && !type.starts_with("application/json")) {
    return SendError(call, {415, "content_type", "the body must be application/json", ""});
  }
  if (const auto fault = CheckLimits(*route, &call)) return SendError(call, *fault);
  if (route->fast) return (this->*route->answer)(call);
  const auto kept = std::make_shared<Call>(std::move(call));
  if (!work_->Post([this, route, kept] { (this->*route->answer)(*kept); })) {
    SendError(*kept, {503, "queue_full", "too many requests are waiting", ""});
  }
}

HttpResponse Api::Refuse(int status, const std::string& message) {
  CountReply("none", status);
  std::string code = "invalid_request";
  if (status == 408) code = "timeout";
  if (status == 413) code = "body_too_large";
  if (status == 431) code = "header_too_large";
  return ErrorResponse({status, code, message, ""});
}

void Api::CountReply(const std::string& route, int status) {
  const std::lock_guard lock(mutex_);
  ++replies_[{route, status}];
}

void Api::Send(const Call& call, HttpResponse response) {
  CountReply(call.route, response.status);
  spdlog::debug("{} {} {} {}", call.request.id, call.request.method, call.route, response.status);
  call.reply->Send(std::move(response));
}

void Api::SendJson(const Call& call, const Json& json) { Send(call, {.body = Dump(json)}); }

void Api::SendError(const Call& call, const ApiError& error) { Send(call, ErrorResponse(error)); }

std::optional<Json> Api::BodyOf(const Call& call) {
  auto parsed = ParseBody(call.request.body);
  if (const auto* error = std::get_if<ApiError>(&parsed)) {
    SendError(call, *error);
    return std::nullopt;
  }
  return std::get<Json>(std::move(parsed));
}

void Api::WithStore(const Call& call, std::function<HttpResponse(Store&)> work) {
  const auto kept = std::make_shared<Call>(call);
  const auto response = std::make_shared<HttpResponse>();
  host_->WithStore({[work = std::move(work), response](Store& store) { *response = work(store); },
                    [this, kept, response](const Status& durable) {
                      const bool good = response->status < 400;
                      Send(*kept, !durable.ok() && good ? ErrorResponse(ErrorOf(durable.error()))
                                                        : *response);
                    }});
}

}  // namespace mooring
