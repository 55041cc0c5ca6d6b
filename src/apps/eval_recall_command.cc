// eval recall: whether a conversation still knows what was said long ago.

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "apps/flag_values.h"
#include "apps/measure_commands.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "eval/recall_facts.h"
#include "eval/text_source.h"

namespace mooring {
namespace {

constexpr CommandFlag kFlags[] = {
    {.name = "task",
     .letter = 0,
     .value = "NAME",
     .help = "facts: numbers that were said once; words: the same, asked for in other words"},
    {.name = "distance",
     .letter = 0,
     .value = "N",
     .help = "tokens between the facts and the questions (5000)"},
    {.name = "items", .letter = 0, .value = "N", .help = "questions in all (24)"},
    {.name = "talk-seed", .letter = 0, .value = "N", .help = "which facts and which filler (1)"},
    {.name = "tuning",
     .letter = 0,
     .value = "",
     .help = "use the wordings that are for tuning, not those of the report"},
};

Json AnswerJson(const RecallAnswer& answer) {
  return {{"text", answer.text}, {"right", answer.right}};
}

Json JsonOf(const RecallFactsReport& report, const Runtime& runtime,
            const RecallFactsOptions& options) {
  Json results = Json::array();
  for (const RecallItem& item : report.items) {
    Json recalled = Json::array();
    for (const LogRange& range : item.recalled) {
      recalled.push_back({{"from", range.from.value}, {"to", range.to.value}});
    }
    results.push_back({{"question", item.question},
                       {"number", item.number},
                       {"distance", item.distance},
                       {"found", item.found},
                       {"recalled", std::move(recalled)},
                       {"without", AnswerJson(item.without)},
                       {"recall", AnswerJson(item.with_recall)},
                       {"gold", AnswerJson(item.gold)}});
  }
  return {{"suite", "recall"},
          {"task", options.other_words ? "words" : "facts"},
          {"model", runtime.model_name},
          {"policy", runtime.engine->options().policy},
          {"window", runtime.engine->options().window.capacity},
          {"distance", options.distance},
          {"seed", options.seed},
          {"encoder", runtime.encoder_name},
          {"wordings", options.tuning_wordings ? "tuning" : "report"},
          {"items", report.items.size()},
          {"accuracy", report.Accuracy(&RecallItem::with_recall)},
          {"accuracy_without", report.Accuracy(&RecallItem::without)},
          {"gold_accuracy", report.Accuracy(&RecallItem::gold)},
          {"retention", report.Retention()},
          {"span_hit", report.SpanHit()},
          {"seconds", report.seconds},
          {"results", std::move(results)}};
}

void PrintReport(const CommandContext& context, const RecallFactsReport& report,
                 const RecallFactsOptions& options) {
  Table table({options.other_words ? "facts, asked for in other words" : "facts", "answered"});
  const auto row = [&table](std::string name, double share) {
    table.Add({std::move(name), fmt::format("{:.0f} %", 100 * share)});
  };
  row("nothing called back", report.Accuracy(&RecallItem::without));
  row("recall", report.Accuracy(&RecallItem::with_recall));
  row("the right span given", report.Accuracy(&RecallItem::gold));
  table.Print(context.out, context.global.color);
  Print(
      context.out,
      "\n{} facts, {} tokens back: the search found {:.0f} % of them; of what the model can answer "
      "it answered {:.0f} % ({:.0f} s)\n",
      report.items.size(), Grouped(options.distance), 100 * report.SpanHit(),
      100 * report.Retention(), report.seconds);
}

Status RunEvalRecall(CommandContext& context) {
  const std::string task = context.Flag("task", "facts");
  if (task != "facts" && task != "words") {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "unknown task",
                 .where = "--task",
                 .expected = "facts or words",
                 .found = task};
  }
  RecallFactsOptions options;
  options.other_words = task == "words";
  MOORING_ASSIGN_OR_RETURN(options.distance,
                           IntegerFlag(context, "distance", options.distance, 1, 10'000'000));
  MOORING_ASSIGN_OR_RETURN(options.items, IntegerFlag(context, "items", options.items, 1, 100'000));
  MOORING_ASSIGN_OR_RETURN(const int64_t seed, IntegerFlag(context, "talk-seed", 1, 0, INT64_MAX));
  options.seed = static_cast<uint64_t>(seed);
  options.tuning_wordings = context.Has("tuning");
  options.interrupted = context.interrupted;
  MOORING_ASSIGN_OR_RETURN(const std::string filler, ReadText(context.arguments[0]));
  MOORING_ASSIGN_OR_RETURN(const Runtime runtime,
                           LoadRuntime(context, {.conversations = 2, .encoder = true}));
  if (runtime.terms == nullptr) {
    return Error{.kind = ErrorKind::kUsage,
                 .what = "nothing comes back with these settings",
                 .where = "policy",
                 .expected = "recall, with a share of the window",
                 .found = runtime.engine->options().policy,
                 .remedy = "use --policy recall and a larger --recall or --window"};
  }
  for (const std::string& warning : runtime.warnings) {
    Print(context.err, "warning: {}\n", warning);
  }
  if (!context.global.quiet) PrintText(context.err, runtime.Description());
  std::optional<Result<RecallFactsReport>> report;
  {
    ProgressLine line(context.err, !context.global.quiet, ProgressUnit::kTokens);
    report.emplace(MeasureRecallOfFacts(
        *runtime.engine, *runtime.chat_template, *runtime.terms, runtime.meaning(), filler, options,
        [&line](int64_t done, int64_t total) {
          line.Update("asking", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
        }));
  }
  if (!report->ok()) return report->error();
  if (context.global.json) {
    PrintJson(context.out, JsonOf(report->value(), runtime, options));
  } else {
    PrintReport(context, report->value(), options);
  }
  return {};
}

}  // namespace

Command EvalRecallCommand() {
  return {.name = "eval recall",
          .arguments = "FILE",
          .summary = "what a conversation still knows, with FILE (plain or .zst) as filler",
          .examples =
              "mooring eval recall book.txt.zst --distance 5000 --window 1024\n"
              "mooring --json eval recall book.txt.zst --distance 100000 --items 200",
          .min_arguments = 1,
          .max_arguments = 1,
          .loads_model = true,
          .flags = kFlags,
          .run = RunEvalRecall};
}

}  // namespace mooring
