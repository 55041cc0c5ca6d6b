// A chat: one dialogue, where it is kept, and how its answers are shown. The loop that asks the
// user is in chat_command.cc, the commands that begin with '/' are in chat_commands.cc.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_ONGOING_CHAT_H_
#define MOORING_APPS_ONGOING_CHAT_H_

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "apps/command.h"
#include "apps/memory_view.h"
#include "apps/reply_output.h"
#include "apps/runtime.h"
#include "talk/conversation_file.h"
#include "talk/dialogue.h"

namespace mooring {

struct ChatOptions {
  std::filesystem::path file;  // the conversation's file; empty: it is not kept
  bool fresh = false;          // --new: begin anew even when the file exists
  SystemText system;
  bool memory_strip = false;  // after each answer
  bool interactive = false;   // a person at a terminal, not a program at a pipe
};

class OngoingChat {
 public:
  // `context` and `runtime` outlive this. kConfig, kModelInvalid when the file is not one of this
  // model or damaged; it is left as it is.
  static Result<std::unique_ptr<OngoingChat>> Open(CommandContext* context, const Runtime* runtime,
                                                   ChatOptions options);

  // Says `text`, shows the answer, keeps the conversation. Errors end the chat: what can be put
  // right by another message is shown instead, where a person is there to write one.
  Status Answer(std::string_view text);

  // A new, empty dialogue with the same system text in the place of this one.
  Status StartAnew();
  // Writes the conversation to another file, which must not exist, or to its own.
  Status SaveTo(const std::filesystem::path& path);

  void Greet() const;
  // What is known about the conversation, for `/stats` and `/memory`.
  MemoryView Memory() const;
  Json StatsJson() const;
  std::string StatsText() const;
  std::string MemoryText() const;
  // A note to the person, dimmed where that is possible; never a result.
  void Note(std::string_view text) const;
  // A result of a command: text, or `json` where the user wants that.
  void Show(std::string_view text, const Json& json) const;

  CommandContext& context() { return *context_; }
  const ChatOptions& options() const { return options_; }
  Dialogue& dialogue() { return *dialogue_; }
  bool leaving() const { return leaving_; }
  void Leave() { leaving_ = true; }
  // Failed when the last attempt to keep the conversation did.
  const Status& kept() const { return kept_; }

 private:
  OngoingChat(CommandContext* context, const Runtime* runtime, ChatOptions options)
      : context_(context),
        runtime_(runtime),
        options_(std::move(options)),
        identity_(IdentityFor(*runtime)) {}

  static ConversationIdentity IdentityFor(const Runtime& runtime);
  Status OpenDialogue();
  void ShowEnd(const ReplySink& sink);
  void ShowRecalled(const std::vector<LogRange>& recalled);
  void PrintTurnJson(const ReplySink& sink, int64_t new_tokens) const;
  std::string StatusLine(const TurnStats& stats) const;
  StripStyle Strip() const;

  CommandContext* context_;
  const Runtime* runtime_;
  ChatOptions options_;
  ConversationIdentity identity_;
  std::optional<Dialogue> dialogue_;
  SamplerSettings sampler_;  // of the last turn
  bool restored_ = false;
  bool leaving_ = false;
  Status kept_;
};

}  // namespace mooring

#endif  // MOORING_APPS_ONGOING_CHAT_H_
