// /metrics: what an operator, a board and an alarm read.
#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "base/process_memory.h"
#include "serve/api.h"

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
  template <typename T>
  using Labelled = std::pair<std::string_view, T>;
  template <typename T>
  void Each(std::string_view name, std::string_view type, std::string_view help,
            std::string_view label, std::initializer_list<Labelled<T>> values) {
    Add(name, type, help);
    for (const auto& [of, value] : values) {
      Value(name, fmt::format("{{{}=\"{}\"}}", label, of), value);
    }
  }
  void Times(std::string_view name, std::string_view help, const Histogram& times) {
    Add(name, "histogram", help);
    int64_t below = 0;
    for (size_t i = 0; i < times.counts.size(); ++i) {
      below += times.counts[i];
      Value(fmt::format("{}_bucket", name),
            i < Histogram::kBounds.size() ? fmt::format("{{le=\"{}\"}}", Histogram::kBounds[i])
                                          : "{le=\"+Inf\"}",
            below);
    }
    Value(fmt::format("{}_sum", name), "", times.seconds);
    Value(fmt::format("{}_count", name), "", below);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// The host and its engine.
void AddTurns(const Host& host, MetricText* text) {
  const HostCounters& counters = host.counters();
  text->Single("requests_waiting", "gauge", "Turns that wait", counters.waiting.load());
  text->Single("requests_running", "gauge", "Turns that run", counters.running.load());
  text->Single("queue_limit", "gauge", "Turns that may wait or run", host.options().queue);
  text->Single("draining", "gauge", "1 while the server takes no new turns",
               host.draining() ? 1 : 0);
  text->Each<int64_t>("tokens_total", "counter", "Tokens by kind", "kind",
                      {{"prompt", counters.prompt_tokens.load()},
                       {"cached", counters.cached_tokens.load()},
                       {"generated", counters.generated_tokens.load()}});
  text->Single("recalled_tokens_total", "counter",
               "Of spans that stood in view again for a message", counters.recalled_tokens.load());
  text->Each<int64_t>("conversations", "gauge", "Conversations whose keys and values are held",
                      "state",
                      {{"hot", counters.in_engine.load()}, {"ram", counters.parked.load()}});
  text->Single("conversation_places", "gauge", "Conversations that the engine can hold",
               host.engine().options().conversations);
  text->Single("parked_bytes", "gauge", "Held outside the engine", counters.parked_bytes.load());
  text->Single("memory_rebuilt_total", "counter", "Conversations read again from the store",
               counters.rebuilt.load());
}

void AddEngine(const Host& host, MetricText* text) {
  const EngineNumbers numbers = host.engine_numbers();
  const EngineCounters& counters = numbers.counters;
  const int64_t used = numbers.pages - numbers.free_pages;
  text->Each<int64_t>(
      "pages", "gauge", "Pages of keys and values; those shared are among those used", "state",
      {{"free", numbers.free_pages}, {"used", used}, {"shared", numbers.shared_pages}});
  text->Single("kv_cache_usage_ratio", "gauge", "Share of the pages that is used",
               numbers.pages == 0 ? 0.0 : static_cast<double>(used) / double(numbers.pages));
  text->Each<int64_t>("window_tokens", "gauge", "Tokens in the windows of the engine", "state",
                      {{"anchor", numbers.anchor_tokens},
                       {"recalled", numbers.recalled_tokens},
                       {"recent", numbers.recent_tokens}});
  text->Single("windows", "gauge", "Windows in the engine", numbers.windows);
  text->Single("windows_without_anchors", "gauge",
               "Windows that lost their first tokens: a fault of the program",
               numbers.windows_without_anchors);
  text->Each<int64_t>("called_back_tokens_total", "counter",
                      "Tokens of spans that came back: read again while a message waited, or kept",
                      "how", {{"read", counters.reread_tokens}, {"kept", counters.spared_tokens}});
  text->Single("ahead_tokens_total", "counter",
               "Tokens of spans that were read again while nothing waited", counters.ahead_tokens);
  text->Single("span_bytes", "gauge", "Memory of spans that are kept, beside the pages",
               numbers.span_bytes);
  text->Single("evicted_tokens_total", "counter",
               "Tokens that left a window, those of a log that is read again too",
               counters.evicted_tokens);
  text->Single("out_of_pages_total", "counter", "Turns cut short because no page was free",
               counters.out_of_pages);
  text->Single("numeric_errors_total", "counter",
               "Turns cut short because the model's numbers were not finite",
               counters.numeric_errors);
  text->Single("steps_total", "counter", "Steps of the engine", counters.steps);
  text->Single("step_rows_total", "counter", "Tokens that the steps read", counters.rows);
  text->Single("step_conversations_total", "counter",
               "Conversations of all steps: over the steps, the batch that was reached",
               counters.conversations);
  text->Each<double>("step_seconds_total", "counter", "Time in steps, by phase", "phase",
                     {{"plan", counters.plan_seconds},
                      {"forward", counters.forward_seconds},
                      {"deliver", counters.deliver_seconds}});
  const EngineMemory memory = host.engine().memory();
  text->Each<uint64_t>("memory_bytes", "gauge", "What the engine took at its start", "part",
                       {{"weights", memory.weights},
                        {"pages", memory.pages},
                        {"workspace", memory.workspace},
                        {"tables", memory.tables}});
  text->Single("resident_bytes", "gauge", "Memory of the process, mapped files too",
               ResidentBytes());
}

}  // namespace

void Api::Metrics(const Call& call) {
  MetricText text;
  {
    const std::lock_guard lock(mutex_);
    text.Add("requests_total", "counter", "Replies by route and status");
    for (const auto& [key, count] : replies_) {
      text.Value("requests_total",
                 fmt::format("{{route=\"{}\",code=\"{}\"}}", key.first, key.second), count);
    }
    text.Add("matched_total", "counter", "Turns by how their conversation was found");
    for (const auto& [how, count] : matched_) {
      text.Value("matched_total", fmt::format("{{how=\"{}\"}}", how), count);
    }
    text.Times("time_to_first_token_seconds",
               "From the engine's start of a turn to its first token", first_token_);
    text.Times("time_per_output_token_seconds", "Between tokens, the mean of an answer for each",
               per_token_);
    text.Times("queue_seconds", "From an order to the start of its turn", queued_);
  }
  text.Single("stream_connections", "gauge", "Answers that are being streamed",
              open_streams_.load());
  AddTurns(*host_, &text);
  AddEngine(*host_, &text);
  if (server_ != nullptr) {
    text.Single("connections", "gauge", "Open connections", server_->counters().connections.load());
    text.Single("refused_total", "counter", "Requests refused before any route",
                server_->counters().refused.load());
  }
  Send(call, {.type = "text/plain; version=0.0.4; charset=utf-8", .body = text.Take()});
}

}  // namespace mooring
