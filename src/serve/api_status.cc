#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/api.h"
#include "serve/json_body.h"
#include "serve/page.h"

namespace mooring {
namespace {

// The text format of Prometheus: one metric after the other.
class MetricText {
 public:
  void Add(std::string_view name, std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# HELP mooring_{} {}\n# TYPE mooring_{} {}\n", name,
                   help, name, type);
  }
  template <typename T>
  void Value(std::string_view name, std::string_view labels, T value) {
    fmt::format_to(std::back_inserter(text_), "mooring_{}{} {}\n", name, labels, value);
  }
  template <typename T>
  void Single(std::string_view name, std::string_view type, std::string_view help, T value) {
    Add(name, type, help);
    Value(name, "", value);
  }
  void Sum(std::string_view name, std::string_view help, double seconds, int64_t count) {
    Add(name, "summary", help);
    Value(fmt::format("{}_sum", name), "", seconds);
    Value(fmt::format("{}_count", name), "", count);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

void Api::Page(const Call& call) {
  auto response = PageResponse(call.request.path);
  if (!response) return SendError(call, {404, "unknown_route", "the page has no such file", ""});
  Send(call, std::move(*response));
}

void Api::Health(const Call& call) { SendJson(call, {{"status", "ok"}}); }

void Api::Ready(const Call& call) {
  if (host_->draining()) return SendError(call, {503, "draining", "the server is ending", ""});
  SendJson(call, {{"status", "ready"}});
}

void Api::Metrics(const Call& call) {
  const HostCounters& counters = host_->counters();
  MetricText text;
  {
    const std::lock_guard lock(mutex_);
    text.Add("requests_total", "counter", "Replies by route and status");
    for (const auto& [key, count] : replies_) {
      text.Value("requests_total",
                 fmt::format("{{route=\"{}\",code=\"{}\"}}", key.first, key.second), count);
    }
    text.Sum("time_to_first_token_seconds", "From the engine's start of a turn to its first token",
             first_token_.seconds, first_token_.count);
    text.Sum("time_per_output_token_seconds", "Between tokens of an answer", per_token_.seconds,
             per_token_.count);
    text.Sum("queue_seconds", "From an order to the start of its turn", queued_.seconds,
             queued_.count);
  }
  text.Single("requests_waiting", "gauge", "Turns that wait", counters.waiting.load());
  text.Single("requests_running", "gauge", "Turns that run", counters.running.load());
  text.Add("tokens_total", "counter", "Tokens by kind");
  text.Value("tokens_total", "{kind=\"prompt\"}", counters.prompt_tokens.load());
  text.Value("tokens_total", "{kind=\"cached\"}", counters.cached_tokens.load());
  text.Value("tokens_total", "{kind=\"generated\"}", counters.generated_tokens.load());
  text.Single("recalled_tokens_total", "counter", "Of spans that stood in view again for a message",
              counters.recalled_tokens.load());
  text.Add("conversations", "gauge", "Conversations whose keys and values are held");
  text.Value("conversations", "{state=\"hot\"}", counters.in_engine.load());
  text.Value("conversations", "{state=\"ram\"}", counters.parked.load());
  text.Add("pages", "gauge", "Pages of keys and values; those shared are among those used");
  text.Value("pages", "{state=\"free\"}", counters.pages_free.load());
  text.Value("pages", "{state=\"used\"}", counters.pages_used.load());
  text.Value("pages", "{state=\"shared\"}", counters.pages_shared.load());
  text.Single("parked_bytes", "gauge", "Held outside the engine", counters.parked_bytes.load());
  text.Single("memory_rebuilt_total", "counter", "Conversations read again from the store",
              counters.rebuilt.load());
  if (server_ != nullptr) {
    text.Single("connections", "gauge", "Open connections", server_->counters().connections.load());
    text.Single("refused_total", "counter", "Requests refused before any route",
                server_->counters().refused.load());
  }
  Send(call, {.type = "text/plain; version=0.0.4; charset=utf-8", .body = text.Take()});
}

void Api::Props(const Call& call) {
  const EngineOptions& engine = host_->engine().options();
  const SamplerSettings& sampler = options_.defaults.turn.sampler;
  SendJson(call,
           {{"model", options_.defaults.model},
            {"system_fingerprint", options_.fingerprint},
            {"policy", engine.policy},
            {"window", {{"capacity", engine.window.capacity}, {"anchors", engine.window.anchors}}},
            {"total_slots", engine.conversations},
            {"sampling",
             {{"temperature", sampler.temperature},
              {"top_p", sampler.top_p},
              {"top_k", sampler.top_k},
              {"min_p", sampler.min_p},
              {"repeat_penalty", sampler.repeat_penalty},
              {"presence_penalty", sampler.presence_penalty},
              {"max_tokens", options_.defaults.turn.max_tokens}}},
            {"chat_template", host_->chat_template().source()}});
}

void Api::Models(const Call& call) {
  SendJson(call, {{"object", "list"},
                  {"data", Json::array({{{"id", options_.defaults.model},
                                         {"object", "model"},
                                         {"created", options_.started},
                                         {"owned_by", "mooring"}}})}});
}

void Api::Model(const Call& call) {
  if (call.parts[0] != options_.defaults.model) {
    return SendError(
        call,
        {404, "model_not_found",
         fmt::format("this server has the model '{}' only", options_.defaults.model), "model"});
  }
  SendJson(call, {{"id", options_.defaults.model},
                  {"object", "model"},
                  {"created", options_.started},
                  {"owned_by", "mooring"}});
}

}  // namespace mooring
