#include "apps/chat_commands.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "apps/options.h"
#include "apps/output.h"
#include "load/model_store.h"

namespace mooring {
namespace {

using Handler = Status (*)(OngoingChat& chat, std::string_view argument);

struct ChatCommandRow {
  std::string_view name;
  std::string_view arguments;
  std::string_view help;
  Handler run;
};

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// The first word, and what follows it.
std::pair<std::string_view, std::string_view> SplitWord(std::string_view text) {
  text = Trim(text);
  const size_t end = std::min(text.find_first_of(" \t\n"), text.size());
  return {text.substr(0, end), Trim(text.substr(end))};
}

Status Help(OngoingChat& chat, std::string_view /*argument*/) {
  chat.Show(ChatCommandHelp(), {{"help", ChatCommandHelp()}});
  return {};
}

Status New(OngoingChat& chat, std::string_view /*argument*/) {
  MOORING_RETURN_IF_ERROR(chat.StartAnew());
  if (chat.options().file.empty()) {
    chat.Note("a new conversation");
  } else {
    chat.Note("a new conversation; its first answer replaces the one in the file");
  }
  return {};
}

Status System(OngoingChat& chat, std::string_view argument) {
  if (argument.empty()) {
    const SystemText& system = chat.dialogue().system();
    const std::string text = !system           ? "the template's own"
                             : system->empty() ? "none"
                                               : TerminalText(*system);
    chat.Show(text, {{"system", system ? Json(*system) : Json(nullptr)}});
    return {};
  }
  chat.dialogue().SetSystem(std::string(argument == "\"\"" ? "" : argument));
  chat.Note("the new instructions go with your next message");
  return {};
}

Status Memory(OngoingChat& chat, std::string_view /*argument*/) {
  chat.Show(chat.MemoryText(), chat.StatsJson());
  return {};
}

Status Stats(OngoingChat& chat, std::string_view /*argument*/) {
  chat.Show(chat.StatsText(), chat.StatsJson());
  return {};
}

Status Save(OngoingChat& chat, std::string_view argument) {
  std::filesystem::path path = chat.options().file;
  if (!argument.empty()) path = std::string(argument);
  if (path.empty()) {
    return Error{.kind = ErrorKind::kUsage, .what = "no file was named", .expected = "/save FILE"};
  }
  MOORING_RETURN_IF_ERROR(chat.SaveTo(path));
  chat.Note(fmt::format("saved to {}", SafeText(path.string())));
  return {};
}

const Option* FindSamplingOption(std::string_view key) {
  const Option* option = FindOption(key);
  if (option == nullptr) option = FindOption(fmt::format("sampling.{}", key));
  if (option == nullptr) option = FindOptionByFlag(key);
  return option != nullptr && option->group == OptionGroup::kSampling ? option : nullptr;
}

Status Set(OngoingChat& chat, std::string_view argument) {
  Settings& settings = chat.context().settings;
  const auto [key, value] = SplitWord(argument);
  const Option* option = FindSamplingOption(key);
  if (key.empty() || (option != nullptr && value.empty())) {
    Json values = Json::object();
    std::string text;
    for (const Option& each : Options()) {
      if (each.group != OptionGroup::kSampling || (option != nullptr && &each != option)) continue;
      values[std::string(each.key)] = ValueText(each, settings);
      text += fmt::format("{} {}\n", each.key, SafeText(ValueText(each, settings)));
    }
    chat.Show(text, {{"settings", values}});
    return {};
  }
  if (option == nullptr) {
    std::vector<std::string> known;
    for (const Option& each : Options()) {
      if (each.group == OptionGroup::kSampling) known.emplace_back(each.flag);
    }
    const std::string nearest = NearestName(key, known);
    return Error{.kind = ErrorKind::kUsage,
                 .what = "this cannot be set in a chat",
                 .where = SafeText(key),
                 .remedy = nearest.empty() ? "/set alone lists what can"
                                           : fmt::format("did you mean /set {}?", nearest)};
  }
  RawValue raw = RawValue::Text(std::string(value));
  if (value == "null" && (option->unset == "null" || IsList(*option))) {
    raw = {RawValue::Kind::kNull, {}};
  } else if (IsList(*option)) {
    raw.kind = RawValue::Kind::kList;
  }
  MOORING_RETURN_IF_ERROR(
      SetOption(*option, raw, {fmt::format("/set {}", key), ErrorKind::kUsage}, &settings));
  chat.Note(fmt::format("{} is {}", option->key, SafeText(ValueText(*option, settings))));
  return {};
}

Status Exit(OngoingChat& chat, std::string_view /*argument*/) {
  chat.Leave();
  return {};
}

constexpr std::array kCommands = {
    ChatCommandRow{"/help", "", "this list", &Help},
    ChatCommandRow{"/new", "", "begin a new conversation", &New},
    ChatCommandRow{"/system", "[TEXT]", "show the instructions, or give new ones (\"\": none)",
                   &System},
    ChatCommandRow{"/memory", "", "what is remembered, as a picture", &Memory},
    ChatCommandRow{"/stats", "", "model, window and memory in numbers", &Stats},
    ChatCommandRow{"/save", "[FILE]", "keep the conversation in a file", &Save},
    ChatCommandRow{"/set", "[KEY VALUE]", "show or change how answers are drawn", &Set},
    ChatCommandRow{"/exit", "", "leave (Ctrl-D does too)", &Exit},
};

const ChatCommandRow* Find(std::string_view name) {
  if (name == "/quit") name = "/exit";
  const auto* const it = std::ranges::find(kCommands, name, &ChatCommandRow::name);
  return it == kCommands.end() ? nullptr : &*it;
}

Status RunOne(std::string_view line, OngoingChat* chat) {
  const auto [name, argument] = SplitWord(line);
  const ChatCommandRow* command = Find(name);
  if (command != nullptr) return command->run(*chat, argument);
  std::vector<std::string> names;
  names.reserve(kCommands.size());
  for (const ChatCommandRow& row : kCommands) names.emplace_back(row.name.substr(1));
  const std::string nearest = NearestName(name.substr(1), names);
  return Error{.kind = ErrorKind::kUsage,
               .what = fmt::format("there is no command {}", SafeText(name)),
               .remedy = nearest.empty() ? "/help lists them; // begins a message with one /"
                                         : fmt::format("did you mean /{}?", nearest)};
}

}  // namespace

bool IsChatCommand(std::string_view line, bool interactive) {
  line = Trim(line);
  if (!line.starts_with('/')) return false;
  if (interactive) return !line.starts_with("//");
  return Find(SplitWord(line).first) != nullptr;
}

Status RunChatCommand(std::string_view line, OngoingChat* chat) {
  const Status status = RunOne(line, chat);
  if (status.ok() || !chat->options().interactive) return status;
  chat->Note(SafeText(status.error().Message()));
  return {};
}

std::string ChatCommandHelp() {
  std::string text;
  for (const ChatCommandRow& row : kCommands) {
    text += fmt::format(
        "  {:<20} {}\n",
        fmt::format("{}{}{}", row.name, row.arguments.empty() ? "" : " ", row.arguments), row.help);
  }
  text +=
      "  \"\"\"                  opens a block of several lines, and closes it\n"
      "  Ctrl-C               stops an answer; at the prompt clears the line, twice leaves\n"
      "  Alt-Enter            a new line in the message\n";
  return text;
}

}  // namespace mooring
