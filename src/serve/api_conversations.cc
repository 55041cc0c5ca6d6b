#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "serve/answer.h"
#include "serve/api.h"
#include "serve/json_body.h"
#include "talk/conversation_names.h"
#include "talk/memory_events.h"

namespace mooring {
namespace {

constexpr size_t kMostListed = 100;
constexpr size_t kDefaultListed = 20;
constexpr size_t kMostMetadata = 16;
constexpr size_t kMostMetadataBytes = 512;
constexpr int64_t kMillisecondsPerSecond = 1000;

// What a conversation is called and noted with lies in its settings, which are ours to fill.
Json MetadataOf(const ConversationInfo& info) {
  auto parsed = ParseBody(info.settings.empty() ? "{}" : info.settings);
  if (const auto* json = std::get_if<Json>(&parsed)) {
    if (const auto found = json->find("metadata"); found != json->end()) return *found;
  }
  return Json::object();
}

Json InfoJson(const ConversationInfo& info) {
  return {{"id", info.id},
          {"object", "conversation"},
          {"created_at", info.created_ms / kMillisecondsPerSecond},
          {"updated_at", info.updated_ms / kMillisecondsPerSecond},
          {"name", info.name.empty() ? Json(nullptr) : Json(info.name)},
          {"metadata", MetadataOf(info)},
          {"mooring",
           {{"model", info.model},
            {"turns", info.turns},
            {"log_tokens", info.log_end.value},
            {"busy", info.busy}}}};
}

std::string_view StatusName(MessageState state) {
  switch (state) {
    case MessageState::kInProgress:
      return "in_progress";
    case MessageState::kComplete:
      return "completed";
    case MessageState::kIncomplete:
      break;
  }
  return "incomplete";
}

Json ItemJson(const StoredMessage& message, Json recalled = Json::array()) {
  const bool answer = message.role == "assistant";
  Json part = {{"type", answer ? "output_text" : "input_text"}, {"text", message.text}};
  if (answer) part["annotations"] = Json::array();
  return {{"type", "message"},
          {"id", message.id},
          {"status", StatusName(message.state)},
          {"role", message.role},
          {"content", Json::array({std::move(part)})},
          {"mooring",
           {{"turn", message.turn},
            {"from", message.from.value},
            {"to", message.to.value},
            {"recalled", std::move(recalled)},
            {"branches", Json::array()}}}};
}

// What came back for the messages of a page of items, by the place where its answer begins.
Result<std::map<LogIndex, Json>> RecalledIn(Store& store, ConversationKey key,
                                            std::span<const StoredMessage> items) {
  std::map<LogIndex, Json> found;
  if (items.empty()) return found;
  const LogIndex from = std::ranges::min(items, {}, &StoredMessage::from).from;
  MOORING_ASSIGN_OR_RETURN(const auto events, store.LoadEvents(key, std::nullopt, from));
  MOORING_ASSIGN_OR_RETURN(const MemoryNotes notes, NotesOf(events));
  for (const RecallNote& note : notes.recalled) {
    const auto message = std::ranges::find(items, note.message, &StoredMessage::from);
    if (message == items.end()) continue;
    RecalledText text = {.range = note.range, .score = note.score};
    if (const auto place = store.MessageAt(key, note.range.from); place.ok()) {
      text.item = place->id;
      text.turn = place->turn;
    }
    found.try_emplace(message->to, Json::array()).first->second.push_back(RecalledJson(text));
  }
  return found;
}

HttpResponse JsonResponse(const Json& json) { return {.body = Dump(json)}; }

// "limit" of a list; nothing when it is no number in range.
std::optional<size_t> LimitOf(const HttpRequest& request) {
  const auto text = request.Query("limit");
  if (!text) return kDefaultListed;
  size_t limit = 0;
  const char* end = text->data() + text->size();
  const auto [last, error] = std::from_chars(text->data(), end, limit);
  if (error != std::errc() || last != end || limit < 1 || limit > kMostListed) return std::nullopt;
  return limit;
}

ApiError BadLimit() {
  return {400, "invalid_value", fmt::format("'limit' must be a number from 1 to {}", kMostListed),
          "limit"};
}

Json ListJson(Json data, bool more) {
  const Json first = data.empty() ? Json(nullptr) : data.front()["id"];
  const Json last = data.empty() ? Json(nullptr) : data.back()["id"];
  return {{"object", "list"},
          {"data", std::move(data)},
          {"first_id", first},
          {"last_id", last},
          {"has_more", more}};
}

std::variant<std::string, ApiError> SettingsOf(const Json& body) {
  const auto found = body.find("metadata");
  if (found == body.end() || found->is_null()) return std::string();
  const auto bad = [](const std::string& why) {
    return ApiError{400, "invalid_value", "bad value for 'metadata': " + why, "metadata"};
  };
  if (!found->is_object()) return bad("expected an object");
  if (found->size() > kMostMetadata) return bad(fmt::format("more than {} keys", kMostMetadata));
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string() ||
        key.size() + value.get_ref<const std::string&>().size() > kMostMetadataBytes) {
      return bad(fmt::format("each value must be text of at most {} bytes", kMostMetadataBytes));
    }
  }
  return Dump({{"metadata", *found}});
}

std::optional<ApiError> RefuseUnknown(const Json& body,
                                      std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : body.items()) {
    if (std::ranges::find(known, name) == known.end()) {
      return ApiError{
          400, "unsupported_parameter",
          fmt::format("the field '{}' is not known here; leave it out", name.substr(0, 64)),
          name.substr(0, 64)};
    }
  }
  return std::nullopt;
}

// Messages that no answer waits for: kept, and read by the model with the next turn.
std::optional<ApiError> Append(Store& store, ConversationKey key,
                               std::vector<RequestMessage> messages) {
  for (RequestMessage& message : messages) {
    TurnStart start;
    start.answer = false;
    if (message.role == "system") {
      start.system = std::move(message.text);
    } else {
      start.messages.push_back({std::move(message.role), std::move(message.text)});
    }
    const auto accepted = store.Accept(key, start);
    if (!accepted.ok()) return ErrorOf(accepted.error());
    if (accepted->kind != AcceptKind::kAccepted) {
      return ErrorOf(Refusal::kBusy, {.what = "the conversation is answering"});
    }
  }
  return std::nullopt;
}

std::variant<std::vector<RequestMessage>, ApiError> MessagesOf(const Json& body, const char* name,
                                                               size_t most) {
  const auto list = body.find(name);
  if (list == body.end() || list->is_null()) return std::vector<RequestMessage>();
  if (!list->is_array()) {
    return ApiError{400, "invalid_value", fmt::format("'{}' must be a list", name), name};
  }
  return ReadMessages(*list, name, most);
}

}  // namespace

void Api::CreateConversation(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  if (const auto fault = RefuseUnknown(*body, {"metadata", "items", "name"})) {
    return SendError(call, *fault);
  }
  const auto settings = SettingsOf(*body);
  if (const auto* error = std::get_if<ApiError>(&settings)) return SendError(call, *error);
  const auto messages = MessagesOf(*body, "items", options_.defaults.messages);
  if (const auto* error = std::get_if<ApiError>(&messages)) return SendError(call, *error);
  std::string name;
  if (const auto found = body->find("name"); found != body->end() && !found->is_null()) {
    if (!found->is_string()) {
      return SendError(call, {400, "invalid_value", "'name' must be text", "name"});
    }
    name = found->get<std::string>();
  }
  WithStore(call,
            [owner = call.owner, name, settings = std::get<std::string>(settings),
             said = std::get<0>(messages), host = host_](Store& store) -> HttpResponse {
              const auto info = store.Create(owner, {.name = name,
                                                     .model = host->options().model,
                                                     .identity = host->options().identity,
                                                     .settings = settings,
                                                     .system = {}});
              if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
              if (const auto fault = Append(store, {owner, info->id}, said))
                return ErrorResponse(*fault);
              return JsonResponse(InfoJson(*info));
            });
}

void Api::ListConversations(const Call& call) {
  const auto limit = LimitOf(call.request);
  if (!limit) return SendError(call, BadLimit());
  WithStore(call,
            [owner = call.owner, limit = *limit,
             after = call.request.Query("after").value_or("")](Store& store) -> HttpResponse {
              const auto found = store.List(owner, {.limit = limit + 1, .after = after});
              if (!found.ok()) return ErrorResponse(ErrorOf(found.error()));
              Json data = Json::array();
              for (const ConversationInfo& info : *found) {
                if (data.size() < limit) data.push_back(InfoJson(info));
              }
              return JsonResponse(ListJson(std::move(data), found->size() > limit));
            });
}

void Api::GetConversation(const Call& call) {
  WithStore(call, [owner = call.owner, id = call.parts[0]](Store& store) -> HttpResponse {
    const auto info = store.Find(owner, id);
    return info.ok() ? JsonResponse(InfoJson(*info)) : ErrorResponse(ErrorOf(info.error()));
  });
}

void Api::UpdateConversation(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  if (const auto fault = RefuseUnknown(*body, {"metadata"})) return SendError(call, *fault);
  const auto settings = SettingsOf(*body);
  if (const auto* error = std::get_if<ApiError>(&settings)) return SendError(call, *error);
  WithStore(call,
            [owner = call.owner, id = call.parts[0],
             text = std::get<std::string>(settings)](Store& store) -> HttpResponse {
              auto info = store.Find(owner, id);
              if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
              const Status set = store.SetSettings({owner, info->id}, text);
              if (!set.ok()) return ErrorResponse(ErrorOf(set.error()));
              info->settings = text;
              return JsonResponse(InfoJson(*info));
            });
}

void Api::DeleteConversation(const Call& call) {
  WithStore(
      call, [owner = call.owner, id = call.parts[0], host = host_](Store& store) -> HttpResponse {
        const auto info = store.Find(owner, id);
        if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
        if (info->busy) {
          return ErrorResponse(ErrorOf(Refusal::kBusy, {.what = "the conversation is answering"}));
        }
        const Status deleted = store.Delete({owner, info->id});
        if (!deleted.ok()) return ErrorResponse(ErrorOf(deleted.error()));
        host->Forget(info->id);
        return JsonResponse(
            {{"id", info->id}, {"object", "conversation.deleted"}, {"deleted", true}});
      });
}

void Api::ListItems(const Call& call) {
  const auto limit = LimitOf(call.request);
  if (!limit) return SendError(call, BadLimit());
  const bool descending = call.request.Query("order").value_or("desc") != "asc";
  WithStore(
      call,
      [owner = call.owner, id = call.parts[0], limit = *limit, descending,
       after = call.request.Query("after").value_or("")](Store& store) -> HttpResponse {
        const auto info = store.Find(owner, id);
        if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
        auto chain = store.LoadChain({owner, info->id}, {});
        if (!chain.ok()) return ErrorResponse(ErrorOf(chain.error()));
        if (descending) std::ranges::reverse(*chain);
        auto at = chain->begin();
        if (!after.empty()) {
          at = std::ranges::find(*chain, after, &StoredMessage::id);
          if (at == chain->end()) {
            return ErrorResponse({404, "conversation_not_found", "there is no such item", "after"});
          }
          ++at;
        }
        const auto count = std::min<size_t>(limit, static_cast<size_t>(chain->end() - at));
        const std::span items(at, count);
        auto recalled = RecalledIn(store, {owner, info->id}, items);
        if (!recalled.ok()) return ErrorResponse(ErrorOf(recalled.error()));
        Json data = Json::array();
        for (const StoredMessage& item : items) {
          const auto note = recalled->find(item.from);
          const bool answer = item.role == "assistant" && note != recalled->end();
          data.push_back(answer ? ItemJson(item, note->second) : ItemJson(item));
        }
        return JsonResponse(
            ListJson(std::move(data), count < static_cast<size_t>(chain->end() - at)));
      });
}

void Api::AddItems(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  if (const auto fault = RefuseUnknown(*body, {"items"})) return SendError(call, *fault);
  const auto messages = MessagesOf(*body, "items", options_.defaults.messages);
  if (const auto* error = std::get_if<ApiError>(&messages)) return SendError(call, *error);
  WithStore(call,
            [owner = call.owner, id = call.parts[0],
             said = std::get<0>(messages)](Store& store) -> HttpResponse {
              const auto info = store.Find(owner, id);
              if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
              if (const auto fault = Append(store, {owner, info->id}, said))
                return ErrorResponse(*fault);
              const auto chain = store.LoadChain({owner, info->id}, {});
              if (!chain.ok()) return ErrorResponse(ErrorOf(chain.error()));
              Json data = Json::array();
              for (size_t i = chain->size() - std::min(chain->size(), said.size());
                   i < chain->size(); ++i) {
                data.push_back(ItemJson((*chain)[i]));
              }
              return JsonResponse(ListJson(std::move(data), false));
            });
}

void Api::ForkConversation(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  if (const auto fault = RefuseUnknown(*body, {"item", "name"})) return SendError(call, *fault);
  const Json item = body->value("item", Json(nullptr));
  const Json name = body->value("name", Json(""));
  if ((!item.is_null() && !item.is_string()) || !name.is_string()) {
    return SendError(call, {400, "invalid_value", "'item' and 'name' must be texts", "item"});
  }
  WithStore(
      call, [owner = call.owner, id = call.parts[0], item, name](Store& store) -> HttpResponse {
        const auto info = store.Find(owner, id);
        if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
        const std::string at = item.is_null() ? info->tip : item.get<std::string>();
        const auto fork = store.Fork({owner, info->id}, at, name.get<std::string>());
        return fork.ok() ? JsonResponse(InfoJson(*fork)) : ErrorResponse(ErrorOf(fork.error()));
      });
}

void Api::RewindConversation(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  if (const auto fault = RefuseUnknown(*body, {"item", "branch"})) return SendError(call, *fault);
  const Json item = body->value("item", Json(nullptr));
  const Json branch = body->value("branch", Json(nullptr));
  const bool texts =
      (item.is_null() || item.is_string()) && (branch.is_null() || branch.is_string());
  if (!texts) {
    return SendError(call, {400, "invalid_value", "'item' and 'branch' must be texts", "item"});
  }
  WithStore(call,
            [owner = call.owner, id = call.parts[0], item, branch](Store& store) -> HttpResponse {
              const auto info = store.Find(owner, id);
              if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
              const ConversationKey key = {owner, info->id};
              if (branch.is_null()) {
                const auto moved = store.Rewind(key, item.is_null() ? "" : item.get<std::string>());
                if (!moved.ok()) return ErrorResponse(ErrorOf(moved.error()));
              } else {
                // The newest branch through that item.
                auto branches = store.Branches(key);
                if (!branches.ok()) return ErrorResponse(ErrorOf(branches.error()));
                std::ranges::sort(*branches, std::greater(), &BranchInfo::id);
                Status moved = Error{.kind = ErrorKind::kNotFound, .what = "no such item"};
                for (const BranchInfo& one : *branches) {
                  const auto chain = store.LoadChain(key, {.branch = one.id, .tokens = false});
                  if (!chain.ok() || std::ranges::find(*chain, branch.get<std::string>(),
                                                       &StoredMessage::id) == chain->end()) {
                    continue;
                  }
                  moved = store.SwitchTo(key, one.id);
                  break;
                }
                if (!moved.ok()) return ErrorResponse(ErrorOf(moved.error()));
              }
              const auto now = store.Find(owner, info->id);
              return now.ok() ? JsonResponse(InfoJson(*now)) : ErrorResponse(ErrorOf(now.error()));
            });
}

void Api::ExportConversation(const Call& call) {
  WithStore(call, [owner = call.owner, id = call.parts[0]](Store& store) -> HttpResponse {
    const auto info = store.Find(owner, id);
    if (!info.ok()) return ErrorResponse(ErrorOf(info.error()));
    const auto chain = store.LoadChain({owner, info->id}, {});
    if (!chain.ok()) return ErrorResponse(ErrorOf(chain.error()));
    Json messages = Json::array();
    for (const StoredMessage& message : *chain) {
      messages.push_back({{"role", message.role}, {"content", message.text}});
    }
    HttpResponse response = JsonResponse({{"object", "conversation.export"},
                                          {"model", info->model},
                                          {"metadata", MetadataOf(*info)},
                                          {"messages", std::move(messages)}});
    response.headers.emplace_back("Content-Disposition",
                                  fmt::format("attachment; filename=\"{}.json\"", info->id));
    return response;
  });
}

void Api::ImportConversation(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  const auto settings = SettingsOf(*body);
  if (const auto* error = std::get_if<ApiError>(&settings)) return SendError(call, *error);
  const auto messages = MessagesOf(*body, "messages", options_.defaults.messages);
  if (const auto* error = std::get_if<ApiError>(&messages)) return SendError(call, *error);
  if (std::get<0>(messages).empty()) {
    return SendError(call, {400, "invalid_value", "there are no 'messages'", "messages"});
  }
  WithStore(call,
            [owner = call.owner, settings = std::get<std::string>(settings),
             said = std::get<0>(messages), host = host_](Store& store) -> HttpResponse {
              const auto made = store.Create(owner, {.name = {},
                                                     .model = host->options().model,
                                                     .identity = host->options().identity,
                                                     .settings = settings,
                                                     .system = {}});
              if (!made.ok()) return ErrorResponse(ErrorOf(made.error()));
              if (const auto fault = Append(store, {owner, made->id}, said))
                return ErrorResponse(*fault);
              const auto info = store.Find(owner, made->id);
              return info.ok() ? JsonResponse(InfoJson(*info))
                               : ErrorResponse(ErrorOf(info.error()));
            });
}

}  // namespace mooring
