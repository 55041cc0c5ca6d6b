#include "text/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/random.h"
#include "text/utf8.h"

namespace mooring {
namespace {

constexpr char kChatml[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

constexpr char kPlain[] =
    "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

// Tracing renders once per message; more messages than this are refused, not traced.
constexpr size_t kMaxTracedMessages = 256;

constexpr size_t kMaxRoleBytes = 64;

// Brackets of a marker: private characters, which no template treats as blanks or letters.
constexpr std::string_view kMarkerOpen = "\xF3\xB4\xB4\x80";
constexpr std::string_view kMarkerClose = "\xF3\xB4\xB4\x81";

bool IsPlainName(std::string_view role) {
  return !role.empty() && role.size() <= kMaxRoleBytes &&
         std::all_of(role.begin(), role.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-' || c == '.';
         });
}

Status CheckRoles(std::span<const ChatMessage> messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (IsPlainName(messages[i].role)) continue;
    return Error{.kind = ErrorKind::kUsage,
                 .what = "a message has an impossible role",
                 .where = fmt::format("messages[{}].role", i),
                 .expected = "up to 64 letters, digits, '_', '-' or '.'",
                 .found = fmt::format("\"{}\"", messages[i].role.substr(0, kMaxRoleBytes))};
  }
  return {};
}

// A beginning that no text here contains. It is drawn from the texts themselves, so that writing a
// message that holds its own marker is as hard as finding a fixed point of the hash.
std::string MarkerStem(const std::string& source, std::span<const ChatMessage> messages) {
  uint64_t hash = source.size();
  for (const ChatMessage& message : messages) {
    for (const char c : message.content) hash = MixBits(hash ^ static_cast<uint8_t>(c));
    hash = MixBits(hash + message.content.size());
  }
  for (;; ++hash) {
    std::string stem = fmt::format("{}{:016x}.", kMarkerOpen, hash);
    const bool taken = source.find(stem) != std::string::npos ||
                       std::any_of(messages.begin(), messages.end(), [&](const ChatMessage& m) {
                         return m.content.find(stem) != std::string::npos;
                       });
    if (!taken) return stem;
  }
}

std::string MarkerOf(const std::string& stem, size_t message) {
  return fmt::format("{}{}{}", stem, message, kMarkerClose);
}

size_t CountOf(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

Error CannotSeparate(std::string why) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what =
                   "the chat template cannot be used: its text and the messages' cannot be "
                   "told apart",
               .where = "chat template",
               .found = std::move(why),
               .remedy = "give another with --template NAME|FILE"};
}

std::vector<ChatMessage> JoinNeighbours(std::span<const ChatMessage> messages) {
  std::vector<ChatMessage> joined;
  for (const ChatMessage& message : messages) {
    if (!joined.empty() && joined.back().role == message.role) {
      joined.back().content += "\n\n" + message.content;
    } else {
      joined.push_back(message);
    }
  }
  return joined;
}

// Puts the text of a leading system message in front of the first user text.
void FoldSystem(std::vector<ChatMessage>* messages) {
  if (messages->empty() || messages->front().role != "system") return;
  const std::string system = std::move(messages->front().content);
  messages->erase(messages->begin());
  const auto user = std::find_if(messages->begin(), messages->end(),
                                 [](const ChatMessage& m) { return m.role == "user"; });
  if (system.empty() || user == messages->end()) return;
  user->content = user->content.empty() ? system : system + "\n\n" + user->content;
}

std::optional<std::string> NameOf(const Tokenizer& tokenizer, std::optional<TokenId> id) {
  if (!id) return std::nullopt;
  return std::string(tokenizer.PieceBytes(*id));
}

}  // namespace

ChatTemplate::ChatTemplate(std::string source, jinja::Template parsed, const Tokenizer& tokenizer)
    : source_(std::move(source)),
      parsed_(std::move(parsed)),
      bos_(NameOf(tokenizer, tokenizer.bos()).value_or("")),
      eos_(NameOf(tokenizer, tokenizer.eos()).value_or("")) {}

Result<ChatTemplate> ChatTemplate::Create(std::string source, const Tokenizer& tokenizer) {
  if (!IsValidUtf8(source)) return CannotSeparate("text that is not UTF-8");
  MOORING_ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Create(source));
  ChatTemplate chat_template(std::move(source), std::move(parsed), tokenizer);
  MOORING_RETURN_IF_ERROR(chat_template.LearnMarks(tokenizer));
  return chat_template;
}

Result<ChatTemplate> ChatTemplate::Named(std::string_view name, const Tokenizer& tokenizer) {
  if (name == "chatml") return Create(kChatml, tokenizer);
  if (name == "plain") return Create(kPlain, tokenizer);
  return Error{.kind = ErrorKind::kUsage,
               .what = "there is no such chat template",
               .where = "--template",
               .expected = "chatml, plain or a file",
               .found = std::string(name)};
}

// Renders a short talk once, to learn the marks around turns and to meet a faulty template while
// the model is being loaded. A refusal here is only a template that wants other messages.
Status ChatTemplate::LearnMarks(const Tokenizer& tokenizer) {
  const Messages talk = {{"user", "question"}, {"assistant", "answer"}, {"user", "next"}};
  const Messages closed(talk.begin(), talk.begin() + 2);
  const auto after = [](const std::vector<Piece>& pieces, size_t message) {
    const auto piece = std::find_if(pieces.begin(), pieces.end(),
                                    [message](const Piece& p) { return p.message == message; });
    if (piece == pieces.end() || std::next(piece) == pieces.end()) return std::string();
    return std::next(piece)->message == kTemplate ? std::next(piece)->text : std::string();
  };
  const Result<std::vector<Piece>> whole = RenderPieces(talk, true);
  const Result<std::vector<Piece>> ended = RenderPieces(closed, false);
  for (const auto* result : {&whole, &ended}) {
    if (!result->ok() && result->error().kind != ErrorKind::kUsage) return result->error();
  }
  if (!whole.ok() || !ended.ok()) return {};
  const std::string between = after(*whole, 1);
  const std::string close = after(*ended, 1);
  if (between.starts_with(close)) user_opening_ = between.substr(close.size());
  for (const TokenId id : tokenizer.Encode(close.empty() ? between : close, Trust::kTrusted)) {
    if (tokenizer.IsSpecial(id)) {
      end_of_turn_ = id;
      break;
    }
    const std::string_view piece = tokenizer.PieceBytes(id);
    if (!jinja::Strip(piece, jinja::kWhitespace, true, true).empty()) break;
  }
  return {};
}

Result<std::string> ChatTemplate::RenderText(const Messages& messages, bool prompt) const {
  jinja::Json list = jinja::Json::array();
  for (const ChatMessage& message : messages) {
    jinja::Json entry = jinja::Json::object();
    entry["role"] = message.role;
    entry["content"] = message.content;
    list.push_back(std::move(entry));
  }
  jinja::Json variables = jinja::Json::object();
  variables["messages"] = std::move(list);
  variables["add_generation_prompt"] = prompt;
  variables["bos_token"] = bos_;
  variables["eos_token"] = eos_;
  variables["tools"] = nullptr;
  variables["documents"] = nullptr;
  return parsed_.Render(variables);
}

// What became of each content in the rendered text, by rendering it alone among markers.
Result<std::vector<std::string>> ChatTemplate::TraceContents(const Messages& messages,
                                                             const Messages& marked,
                                                             const std::string& marked_text,
                                                             bool prompt) const {
  if (messages.size() > kMaxTracedMessages) {
    return CannotSeparate(
        fmt::format("more than {} messages that the template may rewrite", kMaxTracedMessages));
  }
  std::vector<std::string> traced(messages.size());
  for (size_t i = 0; i < messages.size(); ++i) {
    traced[i] = messages[i].content;
    const size_t count = CountOf(marked_text, marked[i].content);
    if (traced[i].empty() || count != 1) continue;
    Messages one = marked;
    one[i].content = messages[i].content;
    MOORING_ASSIGN_OR_RETURN(const std::string text, RenderText(one, prompt));
    const size_t at = marked_text.find(marked[i].content);
    const std::string_view before = std::string_view(marked_text).substr(0, at);
    const std::string_view behind =
        std::string_view(marked_text).substr(at + marked[i].content.size());
    if (text.size() < before.size() + behind.size() || !text.starts_with(before) ||
        !text.ends_with(behind)) {
      return CannotSeparate(fmt::format("text elsewhere that depends on message {}", i));
    }
    traced[i] = text.substr(at, text.size() - before.size() - behind.size());
  }
  return traced;
}

Result<std::vector<ChatTemplate::Piece>> ChatTemplate::RenderPieces(const Messages& messages,
                                                                    bool prompt) const {
  MOORING_ASSIGN_OR_RETURN(const std::string text, RenderText(messages, prompt));
  const std::string stem = MarkerStem(source_, messages);
  Messages marked = messages;
  for (size_t i = 0; i < marked.size(); ++i) {
    // Templates ask whether there is any content; a marker would answer for an empty one.
    if (!marked[i].content.empty()) marked[i].content = MarkerOf(stem, i);
  }
  MOORING_ASSIGN_OR_RETURN(const std::string marked_text, RenderText(marked, prompt));

  std::vector<Piece> pieces;
  const auto put = [&pieces](std::string_view piece, size_t message) {
    if (!piece.empty()) pieces.push_back({std::string(piece), message});
  };
  std::string_view rest = marked_text;
  for (size_t at = rest.find(stem); at != std::string_view::npos; at = rest.find(stem)) {
    put(rest.substr(0, at), kTemplate);
    rest.remove_prefix(at);
    size_t message = marked.size();
    std::from_chars(rest.data() + stem.size(), rest.data() + rest.size(), message);
    if (message >= marked.size() || !rest.starts_with(MarkerOf(stem, message))) {
      return CannotSeparate("messages cut to pieces");
    }
    put(marked[message].content, message);
    rest.remove_prefix(marked[message].content.size());
  }
  put(rest, kTemplate);

  const auto fits = [&](const std::vector<std::string>& contents) {
    std::string_view left = text;
    for (Piece& piece : pieces) {
      if (piece.message != kTemplate) piece.text = contents[piece.message];
      if (!left.starts_with(piece.text)) return false;
      left.remove_prefix(piece.text.size());
    }
    return left.empty();
  };
  std::vector<std::string> contents;
  for (const ChatMessage& message : messages) contents.push_back(message.content);
  if (fits(contents)) return pieces;
  for (std::string& content : contents) {
    content = std::string(jinja::Strip(content, jinja::kWhitespace, true, true));
  }
  if (fits(contents)) return pieces;
  MOORING_ASSIGN_OR_RETURN(contents, TraceContents(messages, marked, marked_text, prompt));
  if (fits(contents)) return pieces;
  return CannotSeparate("text that depends on several messages at once");
}

Result<std::vector<ChatTemplate::Piece>> ChatTemplate::RenderAdapted(Messages messages,
                                                                     bool prompt) const {
  Result<std::vector<Piece>> pieces = RenderPieces(messages, prompt);
  const auto refused = [&] { return !pieces.ok() && pieces.error().kind == ErrorKind::kUsage; };
  if (!refused()) return pieces;
  messages = JoinNeighbours(messages);
  pieces = RenderPieces(messages, prompt);
  if (!refused()) return pieces;
  const size_t first = !messages.empty() && messages[0].role == "system" ? 1 : 0;
  if (first < messages.size() && messages[first].role == "assistant") {
    messages.insert(messages.begin() + static_cast<std::ptrdiff_t>(first), {"user", ""});
    pieces = RenderPieces(messages, prompt);
    if (!refused()) return pieces;
  }
  FoldSystem(&messages);
  return RenderPieces(messages, prompt);
}

void ChatTemplate::DropEmptySystem(std::vector<Piece>* pieces) const {
  if (pieces->empty() || pieces->front().message != kTemplate || user_opening_.empty()) return;
  std::string& header = pieces->front().text;
  if (!header.ends_with(user_opening_)) return;
  // Some models' BOS is the mark that opens every turn; only one that stands apart is kept.
  const bool has_bos = !bos_.empty() && header.starts_with(bos_) &&
                       header.size() >= bos_.size() + user_opening_.size() &&
                       !user_opening_.starts_with(bos_);
  header = (has_bos ? bos_ : "") + user_opening_;
}

namespace {

// Neighbours of equal trust become one part, as the template wrote them in one go.
void AddPart(std::string text, Trust trust, std::vector<TextPart>* parts) {
  if (text.empty()) return;
  if (!parts->empty() && parts->back().trust == trust && trust == Trust::kTrusted) {
    parts->back().text += text;
  } else {
    parts->push_back({std::move(text), trust});
  }
}

}  // namespace

Result<std::vector<TextPart>> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                                   bool add_generation_prompt) const {
  MOORING_RETURN_IF_ERROR(CheckRoles(messages));
  MOORING_ASSIGN_OR_RETURN(
      std::vector<Piece> pieces,
      RenderAdapted(Messages(messages.begin(), messages.end()), add_generation_prompt));
  const bool no_system = messages.size() > 1 && messages[0].role == "system" &&
                         messages[0].content.empty() && messages[1].role == "user" &&
                         !messages[1].content.empty();
  if (no_system) DropEmptySystem(&pieces);
  std::vector<TextPart> parts;
  for (Piece& piece : pieces) {
    AddPart(std::move(piece.text), piece.message == kTemplate ? Trust::kTrusted : Trust::kUntrusted,
            &parts);
  }
  return parts;
}

Result<std::vector<TextPart>> ChatTemplate::RenderDelta(
    const std::optional<std::string>& system_text,
    std::span<const ChatMessage> new_messages) const {
  MOORING_RETURN_IF_ERROR(CheckRoles(new_messages));
  Messages stub;
  if (system_text) stub.push_back({"system", *system_text});
  stub.push_back({"user", "question"});
  stub.push_back({"assistant", "answer"});
  const auto with = [&stub](std::span<const ChatMessage> messages) {
    Messages all = stub;
    all.insert(all.end(), messages.begin(), messages.end());
    return all;
  };
  Result<std::vector<Piece>> pieces = RenderPieces(with(new_messages), true);
  // The stub itself must stay as it is, so only the new messages and the system text are adapted.
  const auto refused = [&] { return !pieces.ok() && pieces.error().kind == ErrorKind::kUsage; };
  if (refused()) pieces = RenderPieces(with(JoinNeighbours(new_messages)), true);
  if (refused() && system_text) {
    stub.erase(stub.begin());
    pieces = RenderPieces(with(JoinNeighbours(new_messages)), true);
  }
  if (!pieces.ok()) return std::move(pieces).error();

  const size_t answer = stub.size() - 1;
  const auto is_answer = [answer](const Piece& piece) { return piece.message == answer; };
  if (std::count_if(pieces->begin(), pieces->end(), is_answer) != 1) {
    return CannotSeparate("an answer that is not rendered exactly once");
  }
  std::vector<TextPart> parts;
  for (auto piece = std::next(std::find_if(pieces->begin(), pieces->end(), is_answer));
       piece != pieces->end(); ++piece) {
    AddPart(std::move(piece->text),
            piece->message == kTemplate ? Trust::kTrusted : Trust::kUntrusted, &parts);
  }
  return parts;
}

std::string JoinParts(std::span<const TextPart> parts) {
  std::string text;
  for (const TextPart& part : parts) text += part.text;
  return text;
}

std::vector<TokenId> EncodeParts(std::span<const TextPart> parts, const Tokenizer& tokenizer,
                                 std::optional<TokenId> last) {
  std::vector<TokenId> ids;
  for (const TextPart& part : parts) tokenizer.Encode(part.text, part.trust, &ids);
  if (last && !ids.empty() && ids.front() == *last) ids.erase(ids.begin());
  return ids;
}

}  // namespace mooring
