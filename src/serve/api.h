// The API: which route does what. Translates between HTTP and the host, and owns neither.
//
// What needs no thought (health, ready, metrics, the page) is answered at once, on the server's
// thread; the rest on a thread of its own, so that a long text holds up nobody's stream.
//
// Thread rule: Handle and Refuse on the server's thread, Tick too; everything else is inside.
#ifndef MOORING_SERVE_API_H_
#define MOORING_SERVE_API_H_

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/api_keys.h"
#include "serve/ask.h"
#include "serve/histogram.h"
#include "serve/http.h"
#include "serve/http_server.h"
#include "serve/owner_limits.h"
#include "serve/work_queue.h"
#include "talk/host.h"

namespace mooring {

struct ApiOptions {
  AskDefaults defaults;
  std::string fingerprint;  // of build, model and policy
  ApiKeys keys;
  OwnerLimitOptions limits;
  int64_t started = 0;  // seconds since 1970
  size_t work_queue = 512;
  double comment_seconds = 10.0;  // a stream that was silent so long says that it lives
};

class AnswerStream;

class Api {
 public:
  // `host` outlives this.
  Api(ApiOptions options, Host* host);

  void Handle(HttpRequest request, std::shared_ptr<Reply> reply);
  HttpResponse Refuse(int status, const std::string& message);
  // Ends the thread that works; what waits for it is dropped. The last call.
  void Finish() { work_.reset(); }
  // A few times a second.
  void Tick();
  // Whose connections `/metrics` counts. Before the first request.
  void Watch(const HttpServer* server) { server_ = server; }

 private:
  // A request that has been let in.
  struct Call {
    HttpRequest request;
    std::shared_ptr<Reply> reply;
    std::string owner;
    std::vector<std::string> parts;  // what stands for {} in the pattern
    std::string route;               // the pattern
    OwnerLimits::Place place;        // of a turn
  };
  struct Route {
    std::string_view method;
    std::string_view pattern;  // "/v1/conversations/{}/items"
    void (Api::*answer)(const Call& call);
    bool open = false;  // needs no key
    bool fast = false;  // answered on the server's thread
    bool body = true;   // of a POST: must be JSON
    bool turn = false;  // asks for an answer: counts to its owner's share
  };
  static const std::vector<Route>& Routes();

  std::optional<ApiError> CheckOrigin(const HttpRequest& request) const;
  // What its owner may not ask for now; else takes the place that a turn needs.
  std::optional<ApiError> CheckLimits(const Route& route, Call* call);
  void Send(const Call& call, HttpResponse response);
  void SendJson(const Call& call, const nlohmann::ordered_json& json);
  void SendError(const Call& call, const ApiError& error);
  void CountReply(const std::string& route, int status);
  // The body as JSON; nothing when it was refused, which has been said.
  std::optional<nlohmann::ordered_json> BodyOf(const Call& call);

  // api_status.cc
  void Page(const Call& call);
  void Health(const Call& call);
  void Ready(const Call& call);
  void Props(const Call& call);
  void Models(const Call& call);
  void Model(const Call& call);
  // api_metrics.cc
  void Metrics(const Call& call);
  // api_text.cc
  void Tokenize(const Call& call);
  void Detokenize(const Call& call);
  void ApplyTemplate(const Call& call);
  void InputTokens(const Call& call);
  // api_answers.cc
  void ChatCompletions(const Call& call);
  void Completions(const Call& call);
  void Responses(const Call& call);
  void GetResponse(const Call& call);
  void Answer(const Call& call, Dialect dialect);
  // api_conversations.cc
  void CreateConversation(const Call& call);
  void ListConversations(const Call& call);
  void GetConversation(const Call& call);
  void UpdateConversation(const Call& call);
  void DeleteConversation(const Call& call);
  void ListItems(const Call& call);
  void AddItems(const Call& call);
  void ForkConversation(const Call& call);
  void RewindConversation(const Call& call);
  void ExportConversation(const Call& call);
  void ImportConversation(const Call& call);
  void Memory(const Call& call);
  // Runs `work` on the store's thread and sends what it gives, once that is durable.
  void WithStore(const Call& call, std::function<HttpResponse(Store&)> work);

  ApiOptions options_;
  OwnerLimits limits_;
  Host* host_;
  const HttpServer* server_ = nullptr;
  std::mutex mutex_;
  std::map<std::pair<std::string, int>, int64_t> replies_;  // guarded by mutex_
  std::vector<std::weak_ptr<AnswerStream>> streams_;        // guarded by mutex_
  std::map<std::string, int64_t, std::less<>> matched_;     // guarded by mutex_
  Histogram first_token_, queued_, per_token_;              // guarded by mutex_
  std::atomic<int64_t> open_streams_ = 0;
  std::unique_ptr<WorkQueue> work_;  // last: its thread uses the rest

  friend class AnswerStream;
};

}  // namespace mooring

#endif  // MOORING_SERVE_API_H_
