#include "apps/ongoing_chat.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "apps/config.h"
#include "apps/model_identity.h"
#include "apps/output.h"
#include "base/process_memory.h"

namespace mooring {
namespace {

// Whether the terminal draws more than ASCII, by the rules of setlocale.
bool UsesUtf8(const Environment& environment) {
  for (const std::string_view name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto it = environment.find(name);
    if (it == environment.end() || it->second.empty()) continue;
    std::string value = it->second;
    std::ranges::transform(value, value.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c; });
    return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

ConversationIdentity OngoingChat::IdentityFor(const Runtime& runtime) {
  return IdentityOf(runtime);
}

Result<std::unique_ptr<OngoingChat>> OngoingChat::Open(CommandContext* context,
                                                       const Runtime* runtime,
                                                       ChatOptions options) {
  std::unique_ptr<OngoingChat> chat(new OngoingChat(context, runtime, std::move(options)));
  std::error_code ignored;
  const ChatOptions& chosen = chat->options_;
  if (chosen.file.empty() || chosen.fresh || !std::filesystem::exists(chosen.file, ignored)) {
    MOORING_RETURN_IF_ERROR(chat->OpenDialogue());
    return chat;
  }
  MOORING_ASSIGN_OR_RETURN(RestoredConversation restored,
                           LoadConversation(chosen.file, runtime->engine.get(),
                                            runtime->chat_template.get(), chat->identity_));
  chat->dialogue_.emplace(std::move(restored.dialogue));
  if (runtime->terms != nullptr) {
    chat->dialogue_->Remember(runtime->terms.get(), runtime->meaning());
  }
  chat->sampler_ = restored.sampler;
  chat->restored_ = true;
  if (chosen.system && chosen.system != chat->dialogue_->system()) {
    chat->dialogue_->SetSystem(chosen.system);
  }
  return chat;
}

Status OngoingChat::OpenDialogue() {
  MOORING_ASSIGN_OR_RETURN(Dialogue dialogue, mooring::OpenDialogue(*runtime_, options_.system));
  dialogue_.emplace(std::move(dialogue));
  return {};
}

Status OngoingChat::StartAnew() {
  options_.system = dialogue_->system();
  dialogue_.reset();  // first: the engine has room for one
  return OpenDialogue();
}

Status OngoingChat::SaveTo(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool own =
      !options_.file.empty() && std::filesystem::equivalent(path, options_.file, ignored);
  if (!own && std::filesystem::exists(path, ignored)) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the file exists already",
                 .where = path.string(),
                 .remedy = "choose another name"};
  }
  return SaveConversation(path, *runtime_->engine, *dialogue_, sampler_, identity_);
}

Status OngoingChat::Answer(std::string_view text) {
  MOORING_ASSIGN_OR_RETURN(TurnRequest request, TurnFromSettings(context_->settings, *runtime_));
  sampler_ = request.sampler;
  std::atomic<bool> nobody = false;
  std::atomic<bool>* stop = context_->interrupted == nullptr ? &nobody : context_->interrupted;
  const bool json = context_->global.json;
  ReplySink sink({.out = json ? nullptr : context_->out, .terminal = options_.interactive}, stop);
  const size_t turns_before = dialogue_->turn_count();
  const auto end = dialogue_->Say(text, std::move(request), &sink, stop);
  if (!end.ok()) {
    if (!options_.interactive || end.error().kind != ErrorKind::kUsage) return end.error();
    Note(fmt::format("not sent: {}", SafeText(end.error().Message())));
    return {};
  }
  if (sink.output_failed()) {
    Leave();
    return sink.written();
  }
  const int64_t new_tokens = dialogue_->MessageTokens(turns_before);
  if (json) {
    PrintTurnJson(sink, new_tokens);
  } else {
    PrintText(context_->out, "\n");
  }
  (void)std::fflush(context_->out);
  if (!options_.file.empty() && new_tokens > 0) {
    kept_ = SaveConversation(options_.file, *runtime_->engine, *dialogue_, sampler_, identity_);
    if (!kept_.ok() && !options_.interactive) return kept_;
  }
  ShowEnd(sink);
  if (options_.interactive) {
    stop->store(false);
    return {};
  }
  return StatusOfEnd(*end);
}

void OngoingChat::ShowEnd(const ReplySink& sink) {
  const bool normal = sink.end() == TurnEnd::kStop || sink.end() == TurnEnd::kStopString;
  if (!normal && !context_->global.json && !context_->global.quiet) {
    Note(fmt::format("[stopped: {}]", FinishReason(sink.end())));
  }
  if (sink.end() == TurnEnd::kWindowFull) {
    Note("the window is full, and this policy forgets nothing: /new, or start with --policy sinks");
  }
  if (!kept_.ok()) {
    Note(fmt::format("not kept: {}", SafeText(kept_.error().Message())));
  }
  ShowRecalled(sink.recalled());
  if (options_.memory_strip && !context_->global.json) Note(MemoryText());
  if (options_.interactive && !context_->global.quiet) Note(StatusLine(sink.stats()));
}

void OngoingChat::ShowRecalled(const std::vector<LogRange>& recalled) {
  if (recalled.empty() || context_->global.json || context_->global.quiet) return;
  std::vector<std::string> turns;
  for (const LogRange& range : recalled) {
    std::string turn = Grouped(dialogue_->UserTurnOf(range.from));
    if (std::ranges::find(turns, turn) == turns.end()) turns.push_back(std::move(turn));
  }
  Note(fmt::format("{} remembered from message{} {}", Strip().unicode ? "◆" : "*",
                   turns.size() == 1 ? "" : "s", fmt::join(turns, ", ")));
}

void OngoingChat::PrintTurnJson(const ReplySink& sink, int64_t new_tokens) const {
  Json turn = {{"turn", dialogue_->user_turns()}, {"new_tokens", new_tokens}};
  turn.update(ReplyJson(sink, Memory(), sampler_.seed));
  turn["recalled"] = Json::array();
  for (const LogRange& range : sink.recalled()) {
    turn["recalled"].push_back({{"from", range.from.value},
                                {"to", range.to.value},
                                {"turn", dialogue_->UserTurnOf(range.from)}});
  }
  turn["kept"] = !options_.file.empty() && kept_.ok();
  PrintJson(context_->out, turn);
}

std::string OngoingChat::StatusLine(const TurnStats& stats) const {
  const MemoryView view = Memory();
  const std::string_view between = Strip().unicode ? " · " : " | ";
  std::string line = fmt::format("{} tokens{}window {}/{}", Grouped(view.log_tokens), between,
                                 Grouped(view.remembered()), Grouped(view.capacity));
  if (const double rate = TokensPerSecond(stats); rate > 0.0) {
    line += fmt::format("{}{:.1f} tokens/s", between, rate);
  }
  if (const uint64_t bytes = ResidentBytes(); bytes > 0) {
    line += fmt::format("{}{} in memory", between, HumanBytes(bytes));
  }
  return line;
}

StripStyle OngoingChat::Strip() const {
  const bool utf8 =
      context_->config_inputs != nullptr && UsesUtf8(context_->config_inputs->environment);
  return {.color = context_->global.color, .unicode = utf8};
}

MemoryView OngoingChat::Memory() const { return ViewOf(*runtime_->engine->Find(dialogue_->id())); }

std::string OngoingChat::MemoryText() const {
  const MemoryView view = Memory();
  return fmt::format("{} {}", MemoryStrip(view, Strip()), MemorySentence(view));
}

Json OngoingChat::StatsJson() const {
  const MemoryView view = Memory();
  const EngineMemory memory = runtime_->engine->memory();
  return {{"model", runtime_->model_name},
          {"turn", dialogue_->user_turns()},
          {"log_tokens", view.log_tokens},
          {"window", WindowJson(view)},
          {"forgotten_tokens", view.forgotten()},
          {"policy", runtime_->engine->options().policy},
          {"memory",
           {{"weights_bytes", memory.weights},
            {"pages_bytes", memory.pages},
            {"buffers_bytes", memory.workspace + memory.tables},
            {"resident_bytes", ResidentBytes()}}}};
}

std::string OngoingChat::StatsText() const {
  std::string text = runtime_->Description();
  text += fmt::format("talk      {} messages of yours, {} tokens in all\n",
                      Grouped(dialogue_->user_turns()), Grouped(Memory().log_tokens));
  text += fmt::format("resident  {} now\n", HumanBytes(ResidentBytes()));
  if (!options_.file.empty())
    text += fmt::format("kept in   {}\n", SafeText(options_.file.string()));
  text += MemoryText();
  return text;
}

void OngoingChat::Greet() const {
  if (context_->global.quiet) return;
  for (const std::string& warning : runtime_->warnings) {
    Print(context_->err, "warning: {}\n", SafeText(warning));
  }
  if (!options_.interactive) return;
  Note(runtime_->Description());
  if (restored_) {
    Note(fmt::format("Goes on after {} messages of yours. {}", Grouped(dialogue_->user_turns()),
                     MemorySentence(Memory())));
  }
  Note("/help for commands, Ctrl-D to leave\n");
}

void OngoingChat::Note(std::string_view text) const {
  while (text.ends_with('\n') && text.size() > 1 && text[text.size() - 2] == '\n') {
    text.remove_suffix(1);
  }
  const std::string_view end = text.ends_with('\n') ? "" : "\n";
  if (context_->global.color) {
    Print(context_->err, "\x1b[2m{}\x1b[0m{}", text, end);
  } else {
    Print(context_->err, "{}{}", text, end);
  }
  (void)std::fflush(context_->err);
}

void OngoingChat::Show(std::string_view text, const Json& json) const {
  if (context_->global.json) {
    PrintJson(context_->out, json);
  } else {
    Print(context_->out, "{}{}", text, text.ends_with('\n') ? "" : "\n");
  }
  (void)std::fflush(context_->out);
}

}  // namespace mooring
