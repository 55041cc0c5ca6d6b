#include "serve/http_connection.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/random.h"

namespace mooring {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr double kLingerSeconds = 1.0;

std::string_view ReasonOf(int status) {
  return std::string_view(
      http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status))));
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  });
  return lower;
}

// A fault of the bytes of a head that the parser lets pass, if there is one.
std::string FaultOfHead(std::string_view head, size_t most_lines) {
  size_t lines = 0;
  for (size_t at = 0; at < head.size(); ++at) {
    const char c = head[at];
    const char next = at + 1 < head.size() ? head[at + 1] : '\0';
    if (c == '\0') return "the head holds a NUL";
    if (c == '\r' && next != '\n') return "a carriage return stands alone in the head";
    if (c != '\n') continue;
    if (at == 0 || head[at - 1] != '\r') return "a line of the head ends without a carriage return";
    if (next == ' ' || next == '\t') return "a header line is folded";
    ++lines;
  }
  return lines > most_lines + 2 ? fmt::format("the head has more than {} lines", most_lines) : "";
}

bool IsPlainPath(std::string_view path) {
  if (path.empty() || path.front() != '/') return false;
  const std::string lower = Lower(path);
  for (const std::string_view bad : {"//", "%2f", "%5c", "%00", "\\", "#"}) {
    if (lower.find(bad) != std::string::npos) return false;
  }
  const auto decoded = PercentDecoded(path, false);
  if (!decoded) return false;
  for (size_t at = 0; at < decoded->size();) {
    const size_t end = std::min(decoded->find('/', at + 1), decoded->size());
    const std::string_view part = std::string_view(*decoded).substr(at + 1, end - at - 1);
    if (part == "." || part == "..") return false;
    at = end;
  }
  return true;
}

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::generic::stream_protocol::socket socket, const ConnectionContext& context,
             std::function<void()> closed)
      : socket_(std::move(socket)),
        deadline_(socket_.get_executor()),
        context_(context),
        closed_(std::move(closed)) {}
  ~Connection() {
    if (closed_) closed_();
  }

  void Start() {
    error_code ignored;
    (void)socket_.non_blocking(true, ignored);
    NextRequest();
  }

  // What a Reply does, on the server's thread.
  void Send(uint64_t number, const HttpResponse& response);
  void Begin(uint64_t number, const HttpResponse& head);
  void Write(uint64_t number, std::string bytes);
  void End(uint64_t number);
  void Abort(uint64_t number);
  void OnGone(uint64_t number, std::function<void()> gone);
  auto executor() { return socket_.get_executor(); }

 private:
  using Parser = http::request_parser<http::string_body>;
  enum class State : uint8_t { kReading, kHandling, kStreaming, kClosing, kClosed };

  void NextRequest() {
    state_ = State::kReading;
    parser_.reset();
    head_done_ = false;
    request_started_ = in_.empty() ? 0.0 : MonotonicSeconds();
    Advance();
  }

  void Advance() {
    if (state_ != State::kReading) return;
    if (!head_done_ && !ReadHead()) return;
    if (head_done_) ReadBody();
  }

  // Waits without holding memory: most connections are idle.
  void More() {
    double seconds = context_.limits.idle_seconds;
    if (request_started_ > 0.0) {
      const double body = static_cast<double>(body_received_);
      seconds = request_started_ + context_.limits.head_seconds - MonotonicSeconds() +
                (head_done_ ? body / context_.limits.body_bytes_per_second : 0.0);
    }
    SetDeadline(seconds, [](Connection& self) {
      if (self.request_started_ > 0.0) {
        self.RefuseRequest(408, "the request came too slowly");
      } else {
        self.Shut();
      }
    });
    socket_.async_wait(asio::socket_base::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         if (!error && self->state_ == State::kReading) self->Receive();
                       });
  }

  void Receive() {
    std::array<char, 16384> bytes;
    error_code error;
    const size_t count = socket_.read_some(asio::buffer(bytes), error);
    if (error == asio::error::would_block) return More();
    if (error) return Shut();
    if (request_started_ == 0.0) request_started_ = MonotonicSeconds();
    if (head_done_) body_received_ += count;
    in_.append(bytes.data(), count);
    Advance();
  }

  bool ReadHead() {
    const size_t end = in_.find(kHeadEnd);
    const std::string_view head = std::string_view(in_).substr(
        0, end == std::string::npos ? in_.size() : end + kHeadEnd.size());
    if (head.size() > context_.limits.head_bytes) {
      RefuseRequest(431,
                    fmt::format("the head is longer than {} bytes", context_.limits.head_bytes));
      return false;
    }
    if (end == std::string::npos) {
      if (head.find("\n\n") != std::string_view::npos) {
        RefuseRequest(400, "a line of the head ends without a carriage return");
      } else {
        More();
      }
      return false;
    }
    if (const std::string fault = FaultOfHead(head, context_.limits.head_lines); !fault.empty()) {
      RefuseRequest(fault.find("more than") == std::string::npos ? 400 : 431, fault);
      return false;
    }
    return ParseHead(head.size());
  }

  bool ParseHead(size_t bytes) {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(context_.limits.head_bytes));
    parser_->body_limit(context_.limits.body_bytes);
    parser_->eager(false);
    error_code error;
    parser_->put(asio::buffer(in_.data(), bytes), error);
    if (error && error != http::error::need_more) {
      RefuseRequest(error == http::error::body_limit ? 413 : 400,
                    fmt::format("not a request: {}", error.message()));
      return false;
    }
    in_.erase(0, bytes);
    const std::string fault = FaultOfFields();
    if (!fault.empty()) {
      RefuseRequest(400, fault);
      return false;
    }
    head_done_ = true;
    body_received_ = in_.size();
    parser_->eager(true);
    if (Lower(parser_->get()[http::field::expect]) == "100-continue" && !parser_->is_done()) {
      Put("HTTP/1.1 100 Continue\r\n\r\n");
    }
    return true;
  }

  std::string FaultOfFields() const {
    const auto& fields = parser_->get();
    if (fields.version() != 10 && fields.version() != 11) return "not HTTP/1.1";
    size_t hosts = 0;
    size_t lengths = 0;
    size_t codings = 0;
    bool chunked = true;
    for (const auto& field : fields) {
      hosts += field.name() == http::field::host ? 1 : 0;
      lengths += field.name() == http::field::content_length ? 1 : 0;
      if (field.name() != http::field::transfer_encoding) continue;
      ++codings;
      chunked = chunked && Lower(field.value()) == "chunked";
    }
    if (hosts != 1) return fmt::format("there must be one Host, not {}", hosts);
    if (codings > 1 || !chunked) return "the only transfer coding that is taken is chunked";
    if (lengths > 1 || (lengths > 0 && codings > 0)) return "the length is given twice";
    if (codings > 0 && fields.version() == 10) return "HTTP/1.0 has no transfer coding";
    const std::string_view target = fields.target();
    if (!IsPlainPath(target.substr(0, target.find('?')))) return "the path is not a plain one";
    return {};
  }

  void ReadBody() {
    error_code error;
    while (!parser_->is_done()) {
      const size_t used = parser_->put(asio::buffer(in_), error);
      in_.erase(0, used);
      if (error == http::error::need_more || (!error && used == 0)) return More();
      if (!error) continue;
      return RefuseRequest(
          error == http::error::body_limit ? 413 : 400,
          error == http::error::body_limit
              ? fmt::format("the body is longer than {} bytes", context_.limits.body_bytes)
              : fmt::format("not a body: {}", error.message()));
    }
    Handle();
  }

  HttpRequest TakeRequest() {
    auto message = parser_->release();
    HttpRequest request;
    request.method = message.method_string();
    const std::string_view target = message.target();
    const size_t mark = std::min(target.find('?'), target.size());
    request.path = target.substr(0, mark);
    request.query = target.substr(std::min(target.size(), mark + 1));
    for (const auto& field : message) {
      request.headers.emplace_back(Lower(field.name_string()), field.value());
    }
    request.body = std::move(message.body());
    request.id = request_id_;
    return request;
  }

  void BeginReply() {
    ++number_;
    request_id_ = fmt::format("req_{:016x}{:016x}", DrawSeed(), DrawSeed());
    state_ = State::kHandling;
    deadline_.cancel();
  }

  void Handle();

  // Before any handler, and the last on this connection: what follows cannot be trusted.
  void RefuseRequest(int status, const std::string& message) {
    ++context_.counters->refused;
    BeginReply();
    keep_alive_ = false;
    in_.clear();
    Send(number_, context_.refuse(status, message));
  }

  // Notices a client that goes while it waits. One that has sent its next request is left alone.
  void WatchPeer(uint64_t number) {
    socket_.async_wait(asio::socket_base::wait_read, [self = shared_from_this(),
                                                      number](const error_code& error) {
      const bool waiting = self->state_ == State::kHandling || self->state_ == State::kStreaming;
      if (error || !waiting || self->number_ != number) return;
      char byte = 0;
      const ssize_t got = ::recv(self->socket_.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (got == 0 || (got < 0 && errno != EAGAIN)) self->Shut();
    });
  }

  std::string HeadOf(const HttpResponse& response, bool streamed) const {
    std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n", response.status,
                                   ReasonOf(response.status), response.type);
    for (const auto& [name, value] : response.headers) {
      fmt::format_to(std::back_inserter(head), "{}: {}\r\n", name, value);
    }
    fmt::format_to(std::back_inserter(head),
                   "X-Request-Id: {}\r\nX-Content-Type-Options: nosniff\r\n", request_id_);
    if (!streamed) {
      fmt::format_to(std::back_inserter(head), "Content-Length: {}\r\n", response.body.size());
    } else if (chunked_) {
      head += "Transfer-Encoding: chunked\r\n";
    }
    head += keep_alive_ ? "\r\n" : "Connection: close\r\n\r\n";
    return head;
  }

  void Put(std::string_view bytes) {
    if (state_ == State::kClosed) return;
    out_ += bytes;
    if (!writing_) Flush();
  }

  void Flush() {
    if (out_.empty()) return WhenWritten();
    writing_ = true;
    sending_ = std::exchange(out_, {});
    asio::async_write(socket_, asio::buffer(sending_),
                      [self = shared_from_this()](const error_code& error, size_t) {
                        self->writing_ = false;
                        self->sending_ = {};
                        if (error) return self->Shut();
                        self->stalled_ = false;
                        if (self->state_ == State::kStreaming) self->deadline_.cancel();
                        self->Flush();
                      });
  }

  void WhenWritten() {
    if (state_ != State::kClosing) return;
    if (keep_alive_) return NextRequest();
    // Closing at once could destroy the reply while the client still sends.
    error_code ignored;
    (void)socket_.shutdown(asio::socket_base::shutdown_send, ignored);
    SetDeadline(kLingerSeconds, [](Connection& self) { self.Shut(); });
    Linger();
  }

  void Linger() {
    socket_.async_wait(asio::socket_base::wait_read,
                       [self = shared_from_this()](const error_code& error) {
                         std::array<char, 16384> bytes;
                         error_code failed = error;
                         if (!failed) self->socket_.read_some(asio::buffer(bytes), failed);
                         if (failed && failed != asio::error::would_block) return self->Shut();
                         self->Linger();
                       });
  }

  template <typename Action>
  void SetDeadline(double seconds, Action action) {
    deadline_.expires_after(
        std::chrono::milliseconds(static_cast<int64_t>(std::max(0.0, seconds) * 1000)));
    deadline_.async_wait([weak = weak_from_this(), action](const error_code& error) {
      const auto self = weak.lock();
      if (!error && self != nullptr) action(*self);
    });
  }

  void Shut() {
    if (state_ == State::kClosed) return;
    state_ = State::kClosed;
    deadline_.cancel();
    error_code ignored;
    (void)socket_.close(ignored);
    if (gone_) std::exchange(gone_, {})();
  }

  bool Answers(uint64_t number, State state) const { return number == number_ && state == state_; }

  asio::generic::stream_protocol::socket socket_;
  asio::steady_timer deadline_;
  const ConnectionContext context_;
  std::function<void()> closed_;
  State state_ = State::kReading;
  std::string in_;
  std::optional<Parser> parser_;
  bool head_done_ = false;
  size_t body_received_ = 0;
  double request_started_ = 0.0;
  // The reply under way.
  uint64_t number_ = 0;
  std::string request_id_;
  bool keep_alive_ = true;
  bool chunked_ = true;
  std::function<void()> gone_;
  std::string out_, sending_;
  bool writing_ = false;
  bool stalled_ = false;
};

class ConnectionReply : public Reply {
 public:
  ConnectionReply(std::shared_ptr<Connection> connection, uint64_t number)
      : connection_(std::move(connection)), number_(number) {}
  // A reply that nobody finished is an error of ours; the client must not wait for ever.
  ~ConnectionReply() override { Abort(); }

  void Send(HttpResponse response) override {
    Do([response = std::move(response)](Connection& c, uint64_t number) mutable {
      c.Send(number, response);
    });
  }
  void Begin(HttpResponse head) override {
    Do([head = std::move(head)](Connection& c, uint64_t number) mutable { c.Begin(number, head); });
  }
  void Write(std::string bytes) override {
    Do([bytes = std::move(bytes)](Connection& c, uint64_t number) mutable {
      c.Write(number, std::move(bytes));
    });
  }
  void End() override {
    Do([](Connection& c, uint64_t number) { c.End(number); });
  }
  void Abort() override {
    Do([](Connection& c, uint64_t number) { c.Abort(number); });
  }
  void OnGone(std::function<void()> gone) override {
    Do([gone = std::move(gone)](Connection& c, uint64_t number) mutable {
      c.OnGone(number, std::move(gone));
    });
  }

 private:
  // Always behind what was asked before, also from the server's own thread: an Abort must not
  // overtake a Send that another thread has posted.
  template <typename Action>
  void Do(Action action) {
    asio::post(connection_->executor(),
               [connection = connection_, number = number_, action = std::move(action)]() mutable {
                 action(*connection, number);
               });
  }

  std::shared_ptr<Connection> connection_;
  uint64_t number_;
};

void Connection::Handle() {
  BeginReply();
  keep_alive_ = parser_->get().keep_alive();
  chunked_ = parser_->get().version() == 11;
  HttpRequest request = TakeRequest();
  parser_.reset();
  WatchPeer(number_);
  context_.handler(std::move(request),
                   std::make_shared<ConnectionReply>(shared_from_this(), number_));
}

void Connection::Send(uint64_t number, const HttpResponse& response) {
  if (!Answers(number, State::kHandling)) return;
  state_ = State::kClosing;
  gone_ = {};
  out_ += HeadOf(response, false);
  Put(response.body);
}

void Connection::Begin(uint64_t number, const HttpResponse& head) {
  if (!Answers(number, State::kHandling)) return;
  state_ = State::kStreaming;
  keep_alive_ = keep_alive_ && chunked_;
  Put(HeadOf(head, true));
}

void Connection::Write(uint64_t number, std::string bytes) {
  if (!Answers(number, State::kStreaming) || bytes.empty()) return;
  Put(chunked_ ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes) : bytes);
  if (out_.size() + sending_.size() <= context_.limits.stalled_bytes || stalled_) return;
  stalled_ = true;
  SetDeadline(context_.limits.stalled_seconds, [](Connection& self) {
    if (self.stalled_) self.Shut();
  });
}

void Connection::End(uint64_t number) {
  if (!Answers(number, State::kStreaming)) return;
  state_ = State::kClosing;
  gone_ = {};
  if (chunked_) out_ += "0\r\n\r\n";
  if (!writing_) Flush();
}

void Connection::Abort(uint64_t number) {
  if (!Answers(number, State::kStreaming) && !Answers(number, State::kHandling)) return;
  // Without the last chunk, so that the client knows.
  state_ = State::kClosing;
  keep_alive_ = false;
  gone_ = {};
  if (!writing_) Flush();
}

void Connection::OnGone(uint64_t number, std::function<void()> gone) {
  if (state_ == State::kClosed && number == number_) return gone();
  if (Answers(number, State::kHandling) || Answers(number, State::kStreaming)) {
    gone_ = std::move(gone);
  }
}

}  // namespace

void StartConnection(asio::generic::stream_protocol::socket socket,
                     const ConnectionContext& context, std::function<void()> closed) {
  std::make_shared<Connection>(std::move(socket), context, std::move(closed))->Start();
}

}  // namespace mooring
