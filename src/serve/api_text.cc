#include <nlohmann/json.hpp>

#include "serve/api.h"
#include "serve/json_body.h"
#include "talk/turn_text.h"

namespace mooring {
namespace {

std::vector<ChatMessage> ChatMessages(const std::vector<RequestMessage>& messages) {
  std::vector<ChatMessage> chat;
  chat.reserve(messages.size());
  for (const RequestMessage& message : messages) chat.push_back({message.role, message.text});
  return chat;
}

}  // namespace

void Api::Tokenize(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  const auto content = body->find("content");
  if (content == body->end() || !content->is_string()) {
    return SendError(call, {400, "invalid_value", "'content' must be text", "content"});
  }
  const bool special = body->value("parse_special", Json(false)) == true;
  const std::vector<TokenId> tokens = host_->engine().tokenizer().Encode(
      content->get_ref<const std::string&>(), special ? Trust::kTrusted : Trust::kUntrusted);
  SendJson(call, {{"tokens", tokens}});
}

void Api::Detokenize(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  const auto list = body->find("tokens");
  const int32_t most = host_->engine().tokenizer().vocab_size();
  std::vector<TokenId> tokens;
  bool good = list != body->end() && list->is_array();
  for (size_t i = 0; good && i < list->size(); ++i) {
    const Json& id = (*list)[i];
    good = id.is_number_unsigned() && id.get<uint64_t>() < static_cast<uint64_t>(most);
    if (good) tokens.push_back(id.get<TokenId>());
  }
  if (!good) {
    return SendError(
        call, {400, "invalid_value",
               "'tokens' must be a list of ids from 0 to " + std::to_string(most - 1), "tokens"});
  }
  SendJson(call, {{"content", host_->engine().tokenizer().Decode(tokens, true)}});
}

void Api::ApplyTemplate(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  const auto list = body->find("messages");
  if (list == body->end() || !list->is_array()) {
    return SendError(call, {400, "invalid_value", "'messages' must be a list", "messages"});
  }
  const auto read = ReadMessages(*list, "messages", options_.defaults.messages);
  if (const auto* error = std::get_if<ApiError>(&read)) return SendError(call, *error);
  const auto parts = host_->chat_template().Render(ChatMessages(std::get<0>(read)), true);
  if (!parts.ok()) return SendError(call, ErrorOf(Refusal::kTemplate, parts.error()));
  SendJson(call, {{"prompt", JoinParts(*parts)}});
}

void Api::InputTokens(const Call& call) {
  const auto body = BodyOf(call);
  if (!body) return;
  const auto ask = ReadAsk(*body, call.request, kChat, options_.defaults);
  if (const auto* error = std::get_if<ApiError>(&ask)) return SendError(call, *error);
  const auto text = RenderTurn(host_->chat_template(), host_->engine().tokenizer(), {},
                               ChatMessages(std::get<Ask>(ask).order.messages));
  if (!text.ok()) return SendError(call, ErrorOf(Refusal::kTemplate, text.error()));
  SendJson(call,
           {{"object", "chat.completion.input_tokens"}, {"input_tokens", text->tokens.size()}});
}

}  // namespace mooring
