#include <unistd.h>

#include <utility>

#include "apps/line_reader.h"
#include "apps/model_identity.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "apps/talk_commands.h"
#include "base/files.h"
#include "talk/checked_container.h"
#include "talk/conversation_file.h"
#include "talk/message_list.h"

namespace mooring {
namespace {

constexpr uint64_t kMessagesLimitBytes = uint64_t{256} << 20;

constexpr CommandFlag kExportFlags[] = {
    {.name = "output",
     .letter = 'o',
     .value = "FILE",
     .help = "write to FILE: the messages when it ends in .json, else a verified copy"},
    {.name = "replace", .letter = 0, .value = "", .help = "FILE may exist; asks, unless --yes"},
};

constexpr CommandFlag kImportFlags[] = {
    {.name = "output", .letter = 'o', .value = "FILE", .help = "the conversation file to write"},
    {.name = "replace", .letter = 0, .value = "", .help = "FILE may exist; asks, unless --yes"},
};

// Whether `path` may be written: it does not exist, or the user wants it replaced.
Status CheckReplace(const CommandContext& context, const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  if (!context.Has("replace")) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the file exists already",
                 .where = path.string(),
                 .remedy = "choose another name, or say --replace"};
  }
  if (context.global.yes) return {};
  if (!IsTerminal(stdin)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "--replace needs a yes, and there is no terminal to ask",
                 .where = path.string(),
                 .remedy = "say --yes"};
  }
  Print(context.err, "replace {}? [y/N] ", SafeText(path.string()));
  (void)std::fflush(context.err);
  MOORING_ASSIGN_OR_RETURN(const InputLine answer,
                           MakePipeReader(STDIN_FILENO, context.interrupted)->Read(""));
  if (answer.text == "y" || answer.text == "yes") return {};
  return Error{.what = "nothing was replaced", .where = path.string()};
}

Status WriteText(const std::filesystem::path& path, std::string_view text) {
  return WriteFileAtomically(path, std::as_bytes(std::span(text)));
}

// A byte-for-byte copy of a file that has been verified.
Status CopyVerified(const std::filesystem::path& from, const std::filesystem::path& to) {
  MOORING_RETURN_IF_ERROR(InspectConversation(from));
  MOORING_ASSIGN_OR_RETURN(const std::string bytes, ReadContainerFile(from));
  return WriteText(to, bytes);
}

Status Export(CommandContext& context) {
  const std::filesystem::path from = context.arguments.front();
  const std::filesystem::path to = context.Flag("output", "");
  if (!to.empty()) MOORING_RETURN_IF_ERROR(CheckReplace(context, to));
  if (!to.empty() && to.extension() != ".json") {
    MOORING_RETURN_IF_ERROR(CopyVerified(from, to));
  } else {
    MOORING_ASSIGN_OR_RETURN(std::string text, ExportConversationText(from));
    if (to.empty()) {
      // On one line for programs, as everywhere with --json.
      if (context.global.json) text = JsonText(Json::parse(text));
      PrintText(context.out, text + "\n");
      return {};
    }
    MOORING_RETURN_IF_ERROR(WriteText(to, text + "\n"));
  }
  if (context.global.json) {
    PrintJson(context.out, {{"file", from.string()}, {"output", to.string()}});
  } else if (!context.global.quiet) {
    Print(context.err, "written to {}\n", SafeText(to.string()));
  }
  return {};
}

// Says everything to a new dialogue, which reads and does not answer.
Result<Dialogue> Replay(const std::vector<ChatMessage>& messages, const CommandContext& context,
                        const Runtime& runtime) {
  uint64_t total_bytes = 0;
  for (const ChatMessage& message : messages) total_bytes += message.content.size();
  ProgressLine progress(context.err, IsTerminal(context.err) && !context.global.quiet);
  MOORING_ASSIGN_OR_RETURN(Dialogue dialogue,
                           Dialogue::Create(runtime.engine.get(), runtime.chat_template.get(), {}));
  uint64_t done_bytes = 0;
  for (const ChatMessage& message : messages) {
    progress.Update("reading", done_bytes, total_bytes);
    if (message.role == "system") {
      dialogue.SetSystem(message.content);
    } else if (message.role == "user") {
      MOORING_RETURN_IF_ERROR(dialogue.ReadMessage(message.content, context.interrupted));
    } else {
      MOORING_RETURN_IF_ERROR(dialogue.ReadAnswer(message.content, context.interrupted));
    }
    done_bytes += message.content.size();
  }
  return dialogue;
}

Status ImportMessages(CommandContext& context, const std::filesystem::path& from,
                      const std::filesystem::path& to) {
  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadFile(from, kMessagesLimitBytes));
  MOORING_ASSIGN_OR_RETURN(std::vector<ChatMessage> messages, ParseMessages(text, from.string()));
  messages = InDialogueOrder(std::move(messages));
  MOORING_ASSIGN_OR_RETURN(const Runtime runtime, LoadRuntime(context, {}));
  MOORING_ASSIGN_OR_RETURN(const Dialogue dialogue, Replay(messages, context, runtime));
  MOORING_ASSIGN_OR_RETURN(const TurnRequest request, TurnFromSettings(context.settings, runtime));
  return SaveConversation(to, *runtime.engine, dialogue, request.sampler, IdentityOf(runtime));
}

Json InfoJson(const std::filesystem::path& path, const ConversationFileInfo& info) {
  return {{"file", path.string()},
          {"ok", true},
          {"version", info.version},
          {"bytes", info.file_bytes},
          {"model", info.identity.model_name},
          {"model_sha256", info.identity.model_sha256},
          {"isa", info.identity.isa},
          {"precision", info.identity.precision},
          {"policy", info.policy},
          {"key_value", info.key_value},
          {"window", {{"capacity", info.window.capacity}, {"anchors", info.window.anchors}}},
          {"turns", info.turn_count},
          {"log_tokens", info.log_tokens}};
}

Status ShowInfo(const CommandContext& context, const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(const ConversationFileInfo info, InspectConversation(path));
  if (context.global.json) {
    PrintJson(context.out, InfoJson(path, info));
    return {};
  }
  Print(context.out,
        "{}: good, {}\n"
        "model   {} ({}...), {} kernels, precision {}\n"
        "window  {} tokens, {} anchors, policy {}, keys and values {}\n"
        "talk    {} messages of the user, {} tokens\n",
        SafeText(path.string()), HumanBytes(info.file_bytes), SafeText(info.identity.model_name),
        SafeText(info.identity.model_sha256.substr(0, 16)), SafeText(info.identity.isa),
        SafeText(info.identity.precision), info.window.capacity, info.window.anchors,
        SafeText(info.policy), SafeText(info.key_value), Grouped(info.turn_count),
        Grouped(info.log_tokens));
  return {};
}

Status Import(CommandContext& context) {
  const std::filesystem::path from = context.arguments.front();
  const std::filesystem::path to = context.Flag("output", "");
  if (to.empty()) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "no file to write was named",
                 .where = "--output",
                 .remedy = "say -o FILE.moor"};
  }
  MOORING_RETURN_IF_ERROR(CheckReplace(context, to));
  if (from.extension() == ".moor") {
    MOORING_RETURN_IF_ERROR(CopyVerified(from, to));
  } else {
    MOORING_RETURN_IF_ERROR(ImportMessages(context, from, to));
  }
  return ShowInfo(context, to);
}

Status Verify(CommandContext& context) {
  const Status shown = ShowInfo(context, context.arguments.front());
  if (shown.ok()) return {};
  Error error = shown.error();
  if (error.kind == ErrorKind::kModelInvalid || error.kind == ErrorKind::kConfig) {
    error.kind = ErrorKind::kFaultFound;
  }
  return error;
}

}  // namespace

Command ConvExportCommand() {
  return {.name = "conv export",
          .arguments = "FILE.moor",
          .summary = "print a conversation's messages as JSON, or copy the file",
          .examples =
              "mooring conv export diary.moor\n"
              "mooring conv export diary.moor -o diary.json",
          .min_arguments = 1,
          .max_arguments = 1,
          .flags = kExportFlags,
          .run = &Export,
          .uses_config = false};
}

Command ConvImportCommand() {
  return {.name = "conv import",
          .arguments = "FILE",
          .summary = "make a conversation file from messages (JSON), or copy a verified one",
          .examples =
              "mooring conv import diary.json -o diary.moor --model smollm2\n"
              "mooring conv import backup.moor -o diary.moor",
          .min_arguments = 1,
          .max_arguments = 1,
          .loads_model = true,
          .flags = kImportFlags,
          .run = &Import};
}

Command ConvVerifyCommand() {
  return {.name = "conv verify",
          .arguments = "FILE.moor",
          .summary = "check every byte of a conversation file",
          .examples = "mooring conv verify diary.moor",
          .min_arguments = 1,
          .max_arguments = 1,
          .run = &Verify,
          .uses_config = false};
}

}  // namespace mooring
