// Chat templates: messages -> text with role marks, in parts that keep apart what the template says
// from what people wrote.
//
// Parts. Template text is trusted (its special tokens count), message contents never are. To tell
// them apart, a template is rendered twice: with the contents, and with a marker in the place of
// each one. Where the two differ in nothing but marker against content (or trimmed content), the
// marked text gives the parts. Otherwise each content that the template rewrites is rendered on its
// own among markers, so that what became of it lies between two known texts. A template that does
// not fit even that is an error; nothing is guessed. Role names are part of the trusted text and
// must therefore be plain names.
//
// Only what is new. RenderDelta gives the text that continues a log: from the close of the last
// answer to the opening of the next. It depends on the new messages and on no history, so old
// tokens never change and the cost does not grow.
//
// Empty system text. A first message of role "system" with empty content means no system text at
// all, not even the template's default. The template renders it as an empty system block; what
// stands before the opening of the first user turn (but for a BOS token) is then left out. The
// opening of a user turn is what the template puts between the close of an answer and a user's
// text; where it cannot be found before the first user text, the empty block stays.
//
// Refused messages. When a template raises an exception, the messages are adapted one step at a
// time until it accepts them: neighbours of one role are joined by a blank line, a leading answer
// gets an empty user turn before it, system text moves in front of the first user text. Only then
// does the refusal come out, with kUsage.
//
// Thread rule: const once made; any thread may render.
#ifndef MOORING_TEXT_CHAT_TEMPLATE_H_
#define MOORING_TEXT_CHAT_TEMPLATE_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/jinja.h"
#include "text/tokenizer.h"

namespace mooring {

struct ChatMessage {
  std::string role;
  std::string content;
};

struct TextPart {
  std::string text;
  Trust trust = Trust::kUntrusted;
};

class ChatTemplate {
 public:
  // `source` is Jinja. Fails with kModelInvalid for a template that cannot be used.
  static Result<ChatTemplate> Create(std::string source, const Tokenizer& tokenizer);

  // A built-in template: "chatml" or "plain" ("role: text" lines). Fails with kUsage for others.
  static Result<ChatTemplate> Named(std::string_view name, const Tokenizer& tokenizer);

  // The start of a conversation, or a whole one.
  Result<std::vector<TextPart>> Render(std::span<const ChatMessage> messages,
                                       bool add_generation_prompt) const;

  // What to append to a log that ends with an answer: the close of that answer, `new_messages` and
  // the generation prompt. `system_text` is the current one; nothing means the template's default.
  Result<std::vector<TextPart>> RenderDelta(const std::optional<std::string>& system_text,
                                            std::span<const ChatMessage> new_messages) const;

  // The special token that the template puts after an answer, if it puts one.
  std::optional<TokenId> end_of_turn() const { return end_of_turn_; }

  const std::string& source() const { return source_; }

 private:
  // A stretch of rendered text; `message` is the index of the message it came from, or kTemplate.
  struct Piece {
    std::string text;
    size_t message;
  };
  static constexpr size_t kTemplate = SIZE_MAX;
  using Messages = std::vector<ChatMessage>;

  ChatTemplate(std::string source, jinja::Template parsed, const Tokenizer& tokenizer);

  Result<std::string> RenderText(const Messages& messages, bool prompt) const;
  Result<std::vector<Piece>> RenderPieces(const Messages& messages, bool prompt) const;
  Result<std::vector<std::string>> TraceContents(const Messages& messages, const Messages& marked,
                                                 const std::string& marked_text, bool prompt) const;
  Result<std::vector<Piece>> RenderAdapted(Messages messages, bool prompt) const;
  Status LearnMarks(const Tokenizer& tokenizer);
  void DropEmptySystem(std::vector<Piece>* pieces) const;

  std::string source_;
  jinja::Template parsed_;
  std::string bos_, eos_;
  std::string user_opening_;  // between the close of an answer and the next user text
  std::optional<TokenId> end_of_turn_;
};

// All parts as one text, for showing.
std::string JoinParts(std::span<const TextPart> parts);

// The ids of `parts`, each encoded by its own trust. When `last` is the last id of the log and the
// parts start with it (the close of an answer that the model has closed itself), it is dropped.
std::vector<TokenId> EncodeParts(std::span<const TextPart> parts, const Tokenizer& tokenizer,
                                 std::optional<TokenId> last = std::nullopt);

}  // namespace mooring

#endif  // MOORING_TEXT_CHAT_TEMPLATE_H_
