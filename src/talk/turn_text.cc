#include "talk/turn_text.h"

#include <fmt/format.h>

#include <utility>

namespace mooring {
namespace {

class TurnRenderer {
 public:
  TurnRenderer(const ChatTemplate& chat_template, const Tokenizer& tokenizer, TalkPlace place)
      : template_(chat_template), tokenizer_(tokenizer) {
    turn_.place = std::move(place);
  }

  void SetSystem(std::string text) {
    if (place().system == text) return;
    place().system = std::move(text);
    place().system_is_new = true;
  }

  Status AddQuestion(const std::string& text, size_t message) {
    MOORING_ASSIGN_OR_RETURN(const std::vector<TokenId> tokens, Question(text));
    Append(tokens);
    const bool with_system = place().system_is_new && place().system.has_value();
    place().system_is_new = false;
    place().awaits_answer = true;
    turn_.spans.push_back({"user", text, message, turn_.tokens.size(), with_system});
    return {};
  }

  Status AddAnswer(const std::string& text, size_t message) {
    bool with_system = false;
    if (!place().awaits_answer) {
      MOORING_RETURN_IF_ERROR(AddQuestion("", message));
      with_system = turn_.spans.back().with_system;
      turn_.spans.pop_back();
    }
    Append(tokenizer_.Encode(text, Trust::kUntrusted));
    place().awaits_answer = false;
    turn_.spans.push_back({"assistant", text, message, turn_.tokens.size(), with_system});
    return {};
  }

  TurnText Finish() { return std::move(turn_); }

 private:
  TalkPlace& place() { return turn_.place; }

  Result<std::vector<TokenId>> Question(const std::string& text) const {
    const TalkPlace& place = turn_.place;
    std::vector<ChatMessage> messages;
    if (!place.last) {
      if (place.system) messages.push_back({"system", *place.system});
      messages.push_back({"user", text});
      MOORING_ASSIGN_OR_RETURN(const std::vector<TextPart> parts, template_.Render(messages, true));
      return EncodeParts(parts, tokenizer_);
    }
    // Instructions that were withdrawn cannot be unsaid: nothing is rendered for them.
    const bool new_system = place.system_is_new && place.system && !place.system->empty();
    if (new_system) messages.push_back({"system", *place.system});
    messages.push_back({"user", text});
    Result<std::vector<TextPart>> parts = template_.RenderDelta(place.system, messages);
    if (!parts.ok() && parts.error().kind == ErrorKind::kUsage && new_system) {
      // The template has no place for a system message in the middle of a talk.
      messages = {{"user", fmt::format("{}\n\n{}", *place.system, text)}};
      parts = template_.RenderDelta(place.system, messages);
    }
    if (!parts.ok()) return std::move(parts).error();
    return EncodeParts(*parts, tokenizer_, place.last);
  }

  void Append(const std::vector<TokenId>& tokens) {
    if (tokens.empty()) return;
    turn_.tokens.insert(turn_.tokens.end(), tokens.begin(), tokens.end());
    place().last = tokens.back();
  }

  const ChatTemplate& template_;
  const Tokenizer& tokenizer_;
  TurnText turn_;
};

}  // namespace

std::string_view KnownRole(std::string_view name) {
  for (const std::string_view role : {"system", "user", "assistant"}) {
    if (role == name) return role;
  }
  return {};
}

std::string JoinTexts(std::string before, std::string_view text) {
  before += "\n\n";
  before += text;
  return before;
}

Result<TurnText> RenderTurn(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                            TalkPlace place, std::span<const ChatMessage> messages) {
  TurnRenderer renderer(chat_template, tokenizer, std::move(place));
  for (size_t i = 0; i < messages.size();) {
    const size_t first = i;
    const std::string_view role = KnownRole(messages[first].role);
    std::string text = messages[first].content;
    for (++i; i < messages.size() && messages[i].role == role; ++i) {
      text = JoinTexts(std::move(text), messages[i].content);
    }
    if (role == "system") {
      renderer.SetSystem(std::move(text));
    } else if (role == "user") {
      MOORING_RETURN_IF_ERROR(renderer.AddQuestion(text, i - 1));
    } else if (role == "assistant") {
      MOORING_RETURN_IF_ERROR(renderer.AddAnswer(text, i - 1));
    } else {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "a message has a role that is not known",
                   .where = "role",
                   .expected = "system, user or assistant",
                   .found = messages[first].role};
    }
  }
  return renderer.Finish();
}

}  // namespace mooring
