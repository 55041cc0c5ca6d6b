#include <algorithm>
#include <optional>
#include <utility>

#include "apps/chat.h"
#include "apps/chat_commands.h"
#include "apps/config.h"
#include "apps/line_reader.h"
#include "apps/ongoing_chat.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "apps/state_folder.h"
#include "apps/talk_commands.h"
#include "base/files.h"

namespace mooring {
namespace {

constexpr std::string_view kPrompt = "> ";
constexpr std::string_view kBlockPrompt = "... ";
constexpr std::string_view kBlockMark = "\"\"\"";
constexpr uint64_t kSystemLimitBytes = 1 << 20;

constexpr CommandFlag kFlags[] = {
    {.name = "conversation",
     .letter = 'c',
     .value = "FILE",
     .help = "keep the conversation in this file, and go on with what it holds"},
    {.name = "new",
     .letter = 0,
     .value = "",
     .help = "begin anew; the first answer replaces what the file holds"},
    {.name = "system",
     .letter = 0,
     .value = "TEXT|@FILE",
     .help = "instructions; \"\" means none at all"},
    {.name = "memory",
     .letter = 0,
     .value = "",
     .help = "show what is remembered after each answer"},
};

Error Interrupted() { return Error{.kind = ErrorKind::kInterrupted, .what = "interrupted"}; }

// The lines of a block that has been opened, up to the one that closes it. `first` is what stands
// behind the opening mark. Nothing when the block was given up.
Result<std::optional<std::string>> ReadBlock(std::string first, LineReader* reader) {
  std::string text = std::move(first);
  for (;;) {
    if (text.ends_with(kBlockMark)) {
      text.resize(text.size() - kBlockMark.size());
      while (text.ends_with('\n')) text.pop_back();
      return std::optional(text.substr(std::min(text.find_first_not_of('\n'), text.size())));
    }
    MOORING_ASSIGN_OR_RETURN(const InputLine line, reader->Read(kBlockPrompt));
    if (line.kind != InputLine::Kind::kText) return std::optional<std::string>();
    text += "\n" + line.text;
    MOORING_RETURN_IF_ERROR(CheckMessageText(text, "input"));
  }
}

bool IsBlank(std::string_view text) { return text.find_first_not_of(" \t\r\n") == text.npos; }

Status TakeLine(std::string line, OngoingChat* chat, LineReader* reader) {
  const bool interactive = chat->options().interactive;
  if (interactive && line.starts_with(kBlockMark)) {
    MOORING_ASSIGN_OR_RETURN(std::optional<std::string> block,
                             ReadBlock(line.substr(kBlockMark.size()), reader));
    if (!block || IsBlank(*block)) return {};
    reader->Remember(*block);
    return chat->Answer(*block);
  }
  if (IsBlank(line)) return {};
  reader->Remember(line);
  if (IsChatCommand(line, interactive)) return RunChatCommand(line, chat);
  if (interactive && line.starts_with("//")) line.erase(0, 1);
  return chat->Answer(line);
}

Status Loop(OngoingChat* chat, LineReader* reader) {
  const bool interactive = chat->options().interactive;
  int interrupts = 0;
  while (!chat->leaving()) {
    Result<InputLine> line = reader->Read(kPrompt);
    if (!line.ok()) {
      if (!interactive || line.error().kind != ErrorKind::kUsage) return line.error();
      chat->Note(SafeText(line.error().Message()));
      continue;
    }
    switch (line->kind) {
      case InputLine::Kind::kEnd:
        return {};
      case InputLine::Kind::kInterrupted:
        if (!interactive || ++interrupts == 2) return Interrupted();
        chat->Note("Ctrl-C once more to leave");
        break;
      case InputLine::Kind::kText:
        interrupts = 0;
        MOORING_RETURN_IF_ERROR(TakeLine(std::move(line->text), chat, reader));
        break;
    }
  }
  return {};
}

// Before the model is loaded and an answer made that could not be kept.
Status CheckFolder(const std::filesystem::path& file) {
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  std::error_code ignored;
  if (std::filesystem::is_directory(folder, ignored)) return {};
  return Error{.kind = ErrorKind::kNotFound,
               .what = "there is no such folder to keep the conversation in",
               .where = folder.string()};
}

// A kept conversation brings its window along where the user has not chosen one.
void AdoptWindow(const std::filesystem::path& file, Settings* settings) {
  const Result<ConversationFileInfo> info = InspectConversation(file);
  if (!info.ok()) return;  // told in full when it is loaded
  if (!settings->window_size) settings->window_size = info->window.capacity;
  if (!settings->memory.anchors) settings->memory.anchors = info->window.anchors;
}

Result<std::unique_ptr<LineReader>> MakeReader(const CommandContext& context, bool interactive,
                                               std::FILE* input) {
  if (!interactive) return MakePipeReader(fileno(input), context.interrupted);
  std::filesystem::path history;
  if (context.config_inputs != nullptr) {
    const auto folder = StateFolder(context.config_inputs->environment);
    if (folder) history = *folder / "history";
  }
  return MakeTerminalReader({.in = input,
                             .out = IsTerminal(context.out) ? context.out : context.err,
                             .color = context.global.color},
                            HistoryFile(std::move(history)), context.interrupted);
}

Status RunChat(CommandContext& context) { return RunChatOn(context, stdin); }

}  // namespace

Result<SystemText> SystemFromFlag(const CommandContext& context) {
  if (!context.Has("system")) return SystemText();
  std::string text = context.Flag("system", "");
  if (text.starts_with('@')) {
    MOORING_ASSIGN_OR_RETURN(text, ReadFile(text.substr(1), kSystemLimitBytes));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  }
  MOORING_RETURN_IF_ERROR(CheckMessageText(text, "--system"));
  return SystemText(std::move(text));
}

Status RunChatOn(CommandContext& context, std::FILE* input) {
  ChatOptions options;
  options.file = context.Flag("conversation", "");
  options.fresh = context.Has("new");
  options.memory_strip = context.Has("memory");
  options.interactive = IsTerminal(input) && !context.global.json;
  if (context.Has("conversation") && options.file.empty()) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "no file was named",
                 .where = "--conversation",
                 .expected = "the path of a file"};
  }
  MOORING_ASSIGN_OR_RETURN(options.system, SystemFromFlag(context));
  if (!context.arguments.empty()) context.settings.model.path = context.arguments.front();
  if (!options.file.empty()) MOORING_RETURN_IF_ERROR(CheckFolder(options.file));
  std::optional<FileLock> lock;
  if (!options.file.empty() && context.config_inputs != nullptr) {
    MOORING_ASSIGN_OR_RETURN(lock,
                             LockFileInState(context.config_inputs->environment, options.file));
  }
  std::error_code ignored;
  if (!options.file.empty() && !options.fresh && std::filesystem::exists(options.file, ignored)) {
    AdoptWindow(options.file, &context.settings);
  }
  MOORING_ASSIGN_OR_RETURN(const Runtime runtime, LoadRuntime(context, {.encoder = true}));
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<OngoingChat> chat,
                           OngoingChat::Open(&context, &runtime, std::move(options)));
  MOORING_ASSIGN_OR_RETURN(const std::unique_ptr<LineReader> reader,
                           MakeReader(context, chat->options().interactive, input));
  chat->Greet();
  MOORING_RETURN_IF_ERROR(Loop(chat.get(), reader.get()));
  return chat->kept();
}

Command ChatCommand() {
  return {.name = "chat",
          .arguments = "[MODEL]",
          .summary = "talk with a model in the terminal; on a pipe, one turn per line",
          .examples =
              "mooring chat\n"
              "mooring chat smollm2 -c diary.moor --memory\n"
              "mooring chat --system \"You answer in one sentence.\"\n"
              "printf 'Hello\\nAnd then?\\n' | mooring --json chat",
          .min_arguments = 0,
          .max_arguments = 1,
          .loads_model = true,
          .samples = true,
          .flags = kFlags,
          .run = &RunChat};
}

}  // namespace mooring
