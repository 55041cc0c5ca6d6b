#include <charconv>
#include <utility>

#include "apps/chat.h"
#include "apps/line_reader.h"
#include "apps/logprobs_sink.h"
#include "apps/memory_view.h"
#include "apps/output.h"
#include "apps/run.h"
#include "apps/runtime.h"
#include "apps/talk_commands.h"
#include "talk/dialogue.h"

namespace mooring {
namespace {

constexpr size_t kMostLogprobs = 20;

constexpr CommandFlag kFlags[] = {
    {.name = "system",
     .letter = 0,
     .value = "TEXT|@FILE",
     .help = "instructions; \"\" means none at all"},
    {.name = "raw",
     .letter = 0,
     .value = "",
     .help = "go on with the text itself, without a chat template"},
    {.name = "logprobs",
     .letter = 0,
     .value = "N",
     .help = "with --json: the N likeliest tokens at each place, 1 to 20"},
};

Result<size_t> LogprobsFromFlag(const CommandContext& context) {
  if (!context.Has("logprobs")) return size_t{0};
  const std::string text = context.Flag("logprobs", "");
  size_t count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || count < 1 || count > kMostLogprobs) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "not a number of log-probabilities",
                 .where = "--logprobs",
                 .expected = fmt::format("1 to {}", kMostLogprobs),
                 .found = text};
  }
  if (!context.global.json) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "log-probabilities come only as JSON",
                 .where = "--logprobs",
                 .remedy = "add --json"};
  }
  return count;
}

Result<std::string> PromptOf(const CommandContext& context, std::FILE* input) {
  std::string prompt;
  std::string where = "PROMPT";
  if (context.arguments.size() == 2 && context.arguments[1] != "-") {
    prompt = context.arguments[1];
    MOORING_RETURN_IF_ERROR(CheckMessageText(prompt, where));
  } else {
    where = "input";
    if (IsTerminal(input) && !context.global.quiet) {
      Print(context.err, "Type the prompt; Ctrl-D on a line of its own ends it.\n");
    }
    MOORING_ASSIGN_OR_RETURN(prompt, ReadAllInput(fileno(input), context.interrupted));
  }
  if (prompt.find_first_not_of(" \t\r\n") == std::string::npos) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "the prompt is empty",
                 .where = where,
                 .remedy = "give it as an argument or on a pipe"};
  }
  return prompt;
}

// What is told of a turn beside its text.
struct TurnFacts {
  ConversationId id = 0;
  uint64_t seed = 0;
  int64_t prompt_tokens = 0;
};

Json ReplyJson(const Runtime& runtime, const LogprobsSink& sink, const TurnFacts& facts) {
  Json reply = {{"model", runtime.model_name}, {"prompt_tokens", facts.prompt_tokens}};
  reply.update(ReplyJson(sink, ViewOf(*runtime.engine->Find(facts.id)), facts.seed));
  if (const Json logprobs = sink.Logprobs(); !logprobs.is_null()) reply["logprobs"] = logprobs;
  return reply;
}

Status Report(const CommandContext& context, const Runtime& runtime, const LogprobsSink& sink,
              const TurnFacts& facts) {
  if (sink.output_failed()) return sink.written();
  if (context.global.json) {
    PrintJson(context.out, ReplyJson(runtime, sink, facts));
  } else {
    PrintText(context.out, "\n");
    const bool normal = sink.end() == TurnEnd::kStop || sink.end() == TurnEnd::kStopString;
    (void)std::fflush(context.out);
    if (!normal && !context.global.quiet) {
      Print(context.err, "[stopped: {}]\n", FinishReason(sink.end()));
    }
  }
  return StatusOfEnd(sink.end());
}

Status AnswerRaw(const CommandContext& context, const Runtime& runtime, std::string_view prompt,
                 TurnRequest request, LogprobsSink* sink) {
  const Tokenizer& tokenizer = *runtime.tokenizer;
  if (tokenizer.add_bos() && tokenizer.bos()) request.tokens.push_back(*tokenizer.bos());
  tokenizer.Encode(prompt, Trust::kUntrusted, &request.tokens);
  TurnFacts facts = {.seed = request.sampler.seed,
                     .prompt_tokens = static_cast<int64_t>(request.tokens.size())};
  MOORING_ASSIGN_OR_RETURN(facts.id, runtime.engine->Open());
  MOORING_RETURN_IF_ERROR(
      RunTurn(runtime.engine.get(), facts.id, std::move(request), sink, context.interrupted));
  return Report(context, runtime, *sink, facts);
}

Status AnswerChat(const CommandContext& context, const Runtime& runtime, std::string_view prompt,
                  SystemText system, TurnRequest request, LogprobsSink* sink) {
  TurnFacts facts = {.seed = request.sampler.seed};
  MOORING_ASSIGN_OR_RETURN(Dialogue dialogue, OpenDialogue(runtime, std::move(system)));
  MOORING_ASSIGN_OR_RETURN([[maybe_unused]] const TurnEnd end,
                           dialogue.Say(prompt, std::move(request), sink, context.interrupted));
  facts.id = dialogue.id();
  facts.prompt_tokens = dialogue.MessageTokens(0);
  return Report(context, runtime, *sink, facts);
}

Status RunRun(CommandContext& context) { return RunOnceOn(context, stdin); }

}  // namespace

Status RunOnceOn(CommandContext& context, std::FILE* input) {
  const bool raw = context.Has("raw");
  if (raw && context.Has("system")) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "--system needs a chat template, and --raw means none",
                 .where = "--system"};
  }
  MOORING_ASSIGN_OR_RETURN(const size_t logprobs, LogprobsFromFlag(context));
  MOORING_ASSIGN_OR_RETURN(SystemText system, SystemFromFlag(context));
  context.settings.model.path = context.arguments.front();
  // The model first: who waits at a pipe for a prompt should know by then that there is one.
  MOORING_ASSIGN_OR_RETURN(const Runtime runtime, LoadRuntime(context, {.chat_template = !raw}));
  if (!context.global.quiet) {
    for (const std::string& warning : runtime.warnings) {
      Print(context.err, "warning: {}\n", SafeText(warning));
    }
  }
  MOORING_ASSIGN_OR_RETURN(const std::string prompt, PromptOf(context, input));
  MOORING_ASSIGN_OR_RETURN(TurnRequest request, TurnFromSettings(context.settings, runtime));
  LogprobsSink sink(
      {.out = context.global.json ? nullptr : context.out, .terminal = IsTerminal(context.out)},
      context.interrupted, runtime.tokenizer.get(), logprobs);
  if (raw) return AnswerRaw(context, runtime, prompt, std::move(request), &sink);
  return AnswerChat(context, runtime, prompt, std::move(system), std::move(request), &sink);
}

Command RunCommand() {
  return {.name = "run",
          .arguments = "MODEL [PROMPT]",
          .summary = "give one answer; without PROMPT, or with -, read it from the input",
          .examples =
              "mooring run smollm2 \"Why is the sky blue?\"\n"
              "mooring run smollm2 - < question.txt\n"
              "mooring run smollm2 --raw --temperature 0 \"Once upon a time\"\n"
              "mooring --json run smollm2 --logprobs 5 \"Yes or no?\"",
          .min_arguments = 1,
          .max_arguments = 2,
          .loads_model = true,
          .samples = true,
          .flags = kFlags,
          .run = &RunRun};
}

}  // namespace mooring
