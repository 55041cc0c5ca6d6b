// A request and a reply as the routes see them, without the library that carries them.
//
// Thread rule: HttpRequest and HttpResponse are plain values. A Reply may be used from any thread,
// and kept as long as one likes.
#ifndef MOORING_SERVE_HTTP_H_
#define MOORING_SERVE_HTTP_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mooring {

struct HttpRequest {
  std::string method;
  std::string path;                                          // as sent, without the query
  std::string query;                                         // behind the question mark
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  std::string id;  // ours, in every reply and log line

  // The first of this name (lower case); empty when there is none.
  std::string_view Header(std::string_view name) const;
  // The value of a field of the query, decoded.
  std::optional<std::string> Query(std::string_view name) const;
};

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpResponse {
  int status = 200;
  std::string type = "application/json";
  HttpHeaders headers = {};
  std::string body;
};

// The answer to one request: either Send, or Begin, any number of Write, and End or Abort. What
// comes after the last of these, or after the client has gone, is ignored.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void Send(HttpResponse response) = 0;
  virtual void Begin(HttpResponse head) = 0;
  virtual void Write(std::string bytes) = 0;
  virtual void End() = 0;
  virtual void Abort() = 0;
  // Called once, on the server's thread, when the client goes before the end.
  virtual void OnGone(std::function<void()> gone) = 0;
};

// Undoes percent-encoding; nothing when it is malformed. '+' is a blank only in a query.
std::optional<std::string> PercentDecoded(std::string_view text, bool query);

}  // namespace mooring

#endif  // MOORING_SERVE_HTTP_H_
