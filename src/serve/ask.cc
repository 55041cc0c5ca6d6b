#include "serve/ask.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/random.h"
#include "serve/json_body.h"

namespace mooring {
namespace {

constexpr std::array<std::string_view, 3> kNameHeaders = {"mooring-conversation", "x-session-id",
                                                          "x-correlation-id"};
constexpr std::array<std::string_view, 4> kRoles = {"system", "developer", "user", "assistant"};

const Json* Member(const Json& body, const char* name) {
  const auto found = body.find(name);
  return found == body.end() || found->is_null() ? nullptr : &*found;
}

template <typename T>
void Take(const Json& body, const char* name, T* field) {
  if (const Json* value = Member(body, name)) *field = value->get<T>();
}

// Text, or a list of parts that are text.
std::optional<std::string> TextOf(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const Json& part : content) {
    if (!part.is_object()) return std::nullopt;
    const Json* type = Member(part, "type");
    const Json* piece = Member(part, "text");
    if (type == nullptr || !type->is_string() || piece == nullptr || !piece->is_string()) {
      return std::nullopt;
    }
    const auto& name = type->get_ref<const std::string&>();
    if (name != "text" && name != "input_text" && name != "output_text") return std::nullopt;
    text += piece->get<std::string>();
  }
  return text;
}

ApiError Bad(const std::string& param, std::string message) {
  return {400, "invalid_value", std::move(message), param};
}

std::optional<ApiError> ReadStops(const Json& body, TurnRequest* turn) {
  const Json* stop = Member(body, "stop");
  if (stop == nullptr) return std::nullopt;
  turn->stop.clear();
  if (stop->is_string()) {
    turn->stop.push_back(stop->get<std::string>());
  } else {
    for (const Json& item : *stop) turn->stop.push_back(item.get<std::string>());
  }
  const bool fits = std::ranges::all_of(turn->stop, [](const std::string& text) {
    return !text.empty() && text.size() <= kMaxStopBytes;
  });
  if (turn->stop.size() <= kMaxStopStrings && fits) return std::nullopt;
  return Bad("stop", fmt::format("bad value for 'stop': expected at most {} texts of 1 to {} bytes",
                                 kMaxStopStrings, kMaxStopBytes));
}

void ReadSampling(const Json& body, const AskDefaults& defaults, TurnRequest* turn) {
  SamplerSettings& sampler = turn->sampler;
  Take(body, "temperature", &sampler.temperature);
  Take(body, "top_p", &sampler.top_p);
  Take(body, "top_k", &sampler.top_k);
  Take(body, "min_p", &sampler.min_p);
  Take(body, "repeat_penalty", &sampler.repeat_penalty);
  Take(body, "presence_penalty", &sampler.presence_penalty);
  sampler.seed = DrawSeed();
  if (const Json* seed = Member(body, "seed")) {
    sampler.seed = static_cast<uint64_t>(seed->get<int64_t>());
  }
  for (const char* name : {"max_tokens", "max_completion_tokens", "max_output_tokens"}) {
    Take(body, name, &turn->max_tokens);
  }
  turn->max_tokens = std::min(turn->max_tokens, defaults.max_tokens);
}

// The conversation that the body names, or a header does; both must say the same.
std::optional<ApiError> ReadConversation(const Json& body, const HttpRequest& request,
                                         TurnOrder* order) {
  if (const Json* named = Member(body, "conversation")) {
    const Json* id = named->is_object() ? Member(*named, "id") : named;
    if (id == nullptr || !id->is_string() || id->get_ref<const std::string&>().empty()) {
      return Bad("conversation", "bad value for 'conversation': expected a name, or {\"id\":...}");
    }
    order->conversation = id->get<std::string>();
  }
  for (const std::string_view header : kNameHeaders) {
    const std::string_view value = request.Header(header);
    if (value.empty()) continue;
    if (!order->conversation.empty() && order->conversation != value) {
      return ApiError{400, "conversation_conflict",
                      "the body and a header name two conversations; leave one out",
                      "conversation"};
    }
    order->conversation = value;
  }
  if (!order->conversation.empty() && !order->previous_response.empty()) {
    return ApiError{400, "conversation_conflict",
                    "'conversation' and 'previous_response_id' exclude each other; leave one out",
                    "previous_response_id"};
  }
  if (order->keep) return std::nullopt;
  if (!order->conversation.empty() || !order->previous_response.empty()) {
    return ApiError{400, "conversation_conflict",
                    "'store':false keeps nothing, so it cannot go on with a conversation", "store"};
  }
  return std::nullopt;
}

std::optional<ApiError> ReadWords(const Json& body, const AskDefaults& defaults, Ask* ask) {
  if (ask->dialect == kCompletion) {
    const Json* prompt = Member(body, "prompt");
    if (prompt == nullptr) return Bad("prompt", "'prompt' is missing: the text to go on with");
    ask->prompt = prompt->get<std::string>();
    ask->order.raw = true;
    ask->order.keep = false;
    return std::nullopt;
  }
  const char* name = ask->dialect == kChat ? "messages" : "input";
  const Json* list = Member(body, name);
  if (list == nullptr) return Bad(name, fmt::format("'{}' is missing: what is said", name));
  std::vector<RequestMessage>& messages = ask->order.messages;
  if (const Json* instructions = Member(body, "instructions")) {
    messages.push_back({"system", instructions->get<std::string>()});
  }
  if (list->is_string()) {
    messages.push_back({"user", list->get<std::string>()});
  } else {
    auto read = ReadMessages(*list, name, defaults.messages);
    if (auto* error = std::get_if<ApiError>(&read)) return std::move(*error);
    auto& said = std::get<0>(read);
    messages.insert(messages.end(), said.begin(), said.end());
  }
  if (messages.empty() || messages.back().role == "assistant" ||
      std::ranges::none_of(messages, [](const auto& m) { return m.role == "user"; })) {
    return Bad(name, fmt::format("'{}' must end with a message to answer, of the role user", name));
  }
  return std::nullopt;
}

}  // namespace

std::variant<std::vector<RequestMessage>, ApiError> ReadMessages(const Json& list,
                                                                 const std::string& param,
                                                                 size_t most) {
  if (list.size() > most) {
    return Bad(param, fmt::format("'{}' has {} messages, and at most {} are taken", param,
                                  list.size(), most));
  }
  std::vector<RequestMessage> messages;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", param, i);
    const Json& entry = list[i];
    if (!entry.is_object()) return Bad(place, fmt::format("{} is no object", place));
    const Json* type = Member(entry, "type");
    if (type != nullptr && *type != "message") {
      return Bad(place + ".type", fmt::format("{}.type: only messages are taken", place));
    }
    const Json* role = Member(entry, "role");
    const bool known =
        role != nullptr && role->is_string() &&
        std::ranges::find(kRoles, role->get_ref<const std::string&>()) != kRoles.end();
    if (!known) {
      return Bad(place + ".role",
                 fmt::format("{}.role: expected system, developer, user or assistant", place));
    }
    const Json* content = Member(entry, "content");
    std::optional<std::string> text = content == nullptr ? std::nullopt : TextOf(*content);
    if (!text) {
      return Bad(place + ".content", fmt::format("{}.content: expected text or text parts", place));
    }
    std::string name = role->get<std::string>();
    if (name == "developer") name = "system";
    messages.push_back({std::move(name), std::move(*text)});
  }
  return messages;
}

std::variant<Ask, ApiError> ReadAsk(const Json& body, const HttpRequest& request, Dialect dialect,
                                    const AskDefaults& defaults) {
  if (auto fault = CheckFields(body, dialect)) return std::move(*fault);
  Ask ask;
  ask.dialect = dialect;
  ask.order.request = defaults.turn;
  ask.order.match = defaults.match;
  std::string model = defaults.model;
  Take(body, "model", &model);
  if (model != defaults.model) {
    return ApiError{404, "model_not_found",
                    fmt::format("this server has the model '{}' only", defaults.model), "model"};
  }
  Take(body, "stream", &ask.stream);
  Take(body, "store", &ask.order.keep);
  Take(body, "previous_response_id", &ask.order.previous_response);
  if (const Json* options = Member(body, "stream_options")) {
    const Json* usage = Member(*options, "include_usage");
    if (usage != nullptr && !usage->is_boolean()) {
      return Bad("stream_options.include_usage", "'include_usage' must be true or false");
    }
    ask.include_usage = usage != nullptr && usage->get<bool>();
  }
  if (const Json* turn = Member(body, "if_turn")) ask.order.if_turn = turn->get<int64_t>();
  ReadSampling(body, defaults, &ask.order.request);
  if (auto fault = ReadStops(body, &ask.order.request)) return std::move(*fault);
  if (auto fault = ReadConversation(body, request, &ask.order)) return std::move(*fault);
  // Behind a response, or in the dialect of responses, only what is new is sent.
  ask.order.resent = dialect == kChat;
  ask.order.match = ask.order.match && dialect == kChat;
  if (auto fault = ReadWords(body, defaults, &ask)) return std::move(*fault);
  return ask;
}

}  // namespace mooring
