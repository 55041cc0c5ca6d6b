#include "talk/message_list.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace mooring {
namespace {

using nlohmann::json;

Error Bad(const std::string& where, std::string place, std::string expected, std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the messages cannot be read",
               .where = fmt::format("{}{}{}", where, place.empty() ? "" : ", ", place),
               .expected = std::move(expected),
               .found = std::move(found)};
}

// Text, or all text parts one after the other. Nothing for any other kind of content.
std::optional<std::string> TextOf(const json& content) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return std::nullopt;
  std::string text;
  for (const json& part : content) {
    if (!part.is_object()) return std::nullopt;
    const auto part_text = part.find("text");
    if (part_text == part.end() || !part_text->is_string()) return std::nullopt;
    text += part_text->get<std::string>();
  }
  return text;
}

}  // namespace

Result<std::vector<ChatMessage>> ParseMessages(std::string_view text, const std::string& where) {
  const json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return Bad(where, "", "JSON", "something else");
  const json* list = &parsed;
  if (parsed.is_object()) {
    const auto found = parsed.find("messages");
    if (found == parsed.end()) return Bad(where, "messages", "a list of messages", "nothing");
    list = &*found;
  }
  if (!list->is_array()) return Bad(where, "messages", "a list of messages", list->type_name());
  std::vector<ChatMessage> messages;
  for (size_t i = 0; i < list->size(); ++i) {
    const json& entry = (*list)[i];
    const std::string place = fmt::format("messages[{}]", i);
    if (!entry.is_object()) return Bad(where, place, "an object", entry.type_name());
    const auto role = entry.find("role");
    const auto content = entry.find("content");
    std::string name = role != entry.end() && role->is_string() ? role->get<std::string>() : "";
    if (name == "developer") name = "system";
    if (name != "system" && name != "user" && name != "assistant") {
      return Bad(where, place + ".role", "system, user or assistant",
                 name.empty() ? "none" : name.substr(0, 64));
    }
    std::optional<std::string> body = content == entry.end() ? std::nullopt : TextOf(*content);
    if (!body) {
      return Bad(where, place + ".content", "text or text parts",
                 content == entry.end() ? "nothing" : "something else");
    }
    messages.push_back({std::move(name), std::move(*body)});
  }
  return messages;
}

std::vector<ChatMessage> InDialogueOrder(std::vector<ChatMessage> messages) {
  std::vector<ChatMessage> ordered;
  std::string last_said;  // the role that spoke last, system apart
  for (ChatMessage& message : messages) {
    if (!ordered.empty() && ordered.back().role == message.role) {
      ordered.back().content += "\n\n" + message.content;
      continue;
    }
    if (message.role == "assistant" && last_said != "user") ordered.push_back({"user", ""});
    if (message.role != "system") last_said = message.role;
    ordered.push_back(std::move(message));
  }
  return ordered;
}

}  // namespace mooring
