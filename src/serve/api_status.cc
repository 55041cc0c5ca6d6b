#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "serve/api.h"
#include "serve/json_body.h"
#include "serve/page.h"

namespace mooring {

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
