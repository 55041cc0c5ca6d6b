// tokenize, template: how a model reads text.
#include <unistd.h>

#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/model_text.h"
#include "apps/output.h"
#include "base/files.h"
#include "text/utf8.h"

namespace mooring {
namespace {

constexpr uint64_t kMaxTextBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxMessagesBytes = uint64_t{16} << 20;

// A piece as JSON: text, or its bytes where it is only a part of a character.
Json PieceJson(std::string_view piece) {
  if (IsValidUtf8(piece)) return std::string(piece);
  Json bytes = Json::array();
  for (const char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return bytes;
}

Result<std::string> TextToTokenize(const CommandContext& context) {
  const bool named = !context.arguments.empty();
  if (named && context.arguments[0] != "-") return context.arguments[0];
  if (!named && isatty(STDIN_FILENO) != 0) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "tokenize needs a text",
                 .remedy = "write it after the command, or `-` and pipe it in"};
  }
  return ReadFile("-", kMaxTextBytes);
}

Status RunTokenize(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, TextToTokenize(context));
  MOORING_ASSIGN_OR_RETURN(const ModelText model, OpenModelText(context.settings.model.path));
  const Trust trust = context.Has("special") ? Trust::kTrusted : Trust::kUntrusted;
  const std::vector<TokenId> ids = model.tokenizer->Encode(text, trust);
  if (context.global.json) {
    Json tokens = Json::array();
    for (const TokenId id : ids) {
      tokens.push_back({{"id", id},
                        {"piece", PieceJson(model.tokenizer->PieceBytes(id))},
                        {"special", model.tokenizer->IsSpecial(id)}});
    }
    PrintJson(context.out, {{"model", context.settings.model.path},
                            {"count", ids.size()},
                            {"tokens", std::move(tokens)}});
    return {};
  }
  for (const TokenId id : ids) {
    if (context.interrupted->load()) {
      return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"};
    }
    Print(context.out, "{:>7}  '{}'{}\n", id, SafeText(model.tokenizer->PieceBytes(id)),
          model.tokenizer->IsSpecial(id) ? "  special" : "");
  }
  if (!context.global.quiet) {
    Print(context.err, "{} tokens, {} bytes\n", Grouped(static_cast<int64_t>(ids.size())),
          Grouped(static_cast<int64_t>(text.size())));
  }
  return {};
}

// What `template` shows when nobody brings messages.
std::vector<ChatMessage> ExampleMessages() {
  return {{"system", "You are a harbour master."},
          {"user", "Where may I moor?"},
          {"assistant", "At buoy seven."},
          {"user", "For how long?"}};
}

Error BadMessages(const std::string& path, std::string found) {
  return {.kind = ErrorKind::kUsage,
          .what = "bad messages",
          .where = path,
          .expected = R"([{"role": "user", "content": "..."}, ...], or that under "messages")",
          .found = std::move(found)};
}

Result<std::vector<ChatMessage>> ReadMessages(const std::string& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxMessagesBytes));
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return BadMessages(path, "not JSON");
  if (json.is_object() && json.contains("messages")) json = Json(json["messages"]);
  if (!json.is_array() || json.empty()) return BadMessages(path, "no list of messages");
  std::vector<ChatMessage> messages;
  for (const Json& item : json) {
    const bool good = item.is_object() && item.contains("role") && item["role"].is_string() &&
                      item.contains("content") && item["content"].is_string();
    if (!good) return BadMessages(path, fmt::format("another thing at {}", messages.size()));
    messages.push_back({item["role"].get<std::string>(), item["content"].get<std::string>()});
  }
  return messages;
}

struct Delta {
  std::optional<std::string> system;
  std::span<const ChatMessage> messages;  // those after the last answer; empty: there is no answer
};

Delta DeltaOf(const std::vector<ChatMessage>& messages) {
  Delta delta;
  if (messages[0].role == "system") delta.system = messages[0].content;
  for (size_t i = messages.size(); i > 0; --i) {
    if (messages[i - 1].role != "assistant") continue;
    delta.messages = std::span(messages).subspan(i);
    break;
  }
  return delta;
}

Json PartsJson(const std::vector<TextPart>& parts) {
  Json json = Json::array();
  for (const TextPart& part : parts) {
    json.push_back({{"text", part.text}, {"trusted", part.trust == Trust::kTrusted}});
  }
  return json;
}

// Template text in bold on a terminal, what people wrote as it is.
std::string PartsText(const std::vector<TextPart>& parts, bool color) {
  std::string text;
  for (const TextPart& part : parts) {
    const std::string safe = SafeText(part.text, true);
    text += part.trust == Trust::kTrusted ? Bold(safe, color) : safe;
  }
  if (!text.ends_with('\n')) text += '\n';
  return text;
}

Status RunTemplate(CommandContext& context) {
  std::vector<ChatMessage> messages = ExampleMessages();
  if (context.Has("messages")) {
    MOORING_ASSIGN_OR_RETURN(messages, ReadMessages(context.Flag("messages", "")));
  }
  MOORING_ASSIGN_OR_RETURN(const ModelText model, OpenModelText(context.settings.model.path));
  std::vector<std::string> warnings;
  MOORING_ASSIGN_OR_RETURN(const ChatTemplate chat,
                           ChooseChatTemplate(context.settings.model.chat_template, model.vocab,
                                              *model.tokenizer, &warnings));
  if (!context.global.quiet) {
    for (const std::string& warning : warnings) Print(context.err, "warning: {}\n", warning);
  }
  const bool ends_with_answer = messages.back().role == "assistant";
  MOORING_ASSIGN_OR_RETURN(const auto whole, chat.Render(messages, !ends_with_answer));
  const Delta delta = DeltaOf(messages);
  std::vector<TextPart> added;
  if (!delta.messages.empty()) {
    MOORING_ASSIGN_OR_RETURN(added, chat.RenderDelta(delta.system, delta.messages));
  }
  if (context.global.json) {
    Json json = {{"model", context.settings.model.path},
                 {"prompt", JoinParts(whole)},
                 {"parts", PartsJson(whole)}};
    if (!added.empty()) {
      json["delta"] = JoinParts(added);
      json["delta_parts"] = PartsJson(added);
    }
    PrintJson(context.out, json);
    return {};
  }
  const bool color = context.global.color;
  Print(context.out, "--- whole conversation\n{}", PartsText(whole, color));
  if (!added.empty()) {
    Print(context.out, "--- what is appended after the last answer\n{}", PartsText(added, color));
  }
  return {};
}

constexpr std::array<CommandFlag, 1> kTokenizeFlags = {{
    {"special", 0, "", "names of special tokens in the text count as such"},
}};
constexpr std::array<CommandFlag, 1> kTemplateFlags = {{
    {"messages", 0, "FILE", "JSON with the messages; - is standard input"},
}};

}  // namespace

Command TokenizeCommand() {
  return {.name = "tokenize",
          .arguments = "[TEXT|-]",
          .summary = "the tokens of a text: ids and pieces",
          .examples =
              "mooring tokenize \"Good morning\"\n"
              "mooring tokenize --special \"<|im_start|>user\"\n"
              "mooring tokenize - --json < book.txt",
          .max_arguments = 1,
          .flags = kTokenizeFlags,
          .run = RunTokenize,
          .reads_model = true};
}

Command TemplateCommand() {
  return {.name = "template",
          .arguments = "",
          .summary = "messages as the model reads them, and what one more turn appends",
          .examples = "mooring template\nmooring template --messages talk.json",
          .flags = kTemplateFlags,
          .run = RunTemplate,
          .reads_model = true};
}

}  // namespace mooring
