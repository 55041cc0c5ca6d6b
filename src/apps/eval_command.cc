// eval ppl: how well a model predicts an endless text through its window.

#include <fmt/format.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "apps/flag_values.h"
#include "apps/measure_commands.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "base/files.h"
#include "eval/perplexity.h"
#include "eval/plot.h"
#include "eval/text_source.h"

namespace mooring {
namespace {

constexpr int64_t kDefaultChunk = 64;  // rows of logits held at once: 12 MiB for the default model
constexpr int64_t kDefaultSegment = 10000;
constexpr int64_t kMostTokens = int64_t{1} << 40;

constexpr CommandFlag kFlags[] = {
    {.name = "tokens", .letter = 0, .value = "N", .help = "read at most N tokens of the text"},
    {.name = "segment", .letter = 0, .value = "N", .help = "report after every N tokens (10000)"},
    {.name = "chunk", .letter = 0, .value = "N", .help = "tokens per step (64)"},
    {.name = "no-fresh",
     .letter = 0,
     .value = "",
     .help = "do not score each segment from an empty window as well"},
    {.name = "nll", .letter = 0, .value = "FILE", .help = "write one loss per line, in nats"},
    {.name = "plot", .letter = 0, .value = "FILE.svg", .help = "draw the segments"},
};

// One loss per line as they come, so that memory does not grow with the text.
class LossFile {
 public:
  static Result<LossFile> Create(const std::string& path) {
    std::FILE* file = path.empty() ? nullptr : std::fopen(path.c_str(), "w");
    if (!path.empty() && file == nullptr) {
      const int error_number = errno;
      return Error{.kind = KindOfErrno(error_number),
                   .what = "cannot write the losses",
                   .where = path,
                   .found = ErrnoText(error_number)};
    }
    return LossFile(file, path);
  }
  void Write(double loss) {
    if (file_ != nullptr) PrintText(file_.get(), fmt::format("{:.6f}\n", loss));
  }
  Status Close() {
    if (file_ == nullptr) return {};
    const bool failed = std::ferror(file_.get()) != 0;
    if (std::fclose(file_.release()) == 0 && !failed) return {};
    return Error{.kind = ErrorKind::kResources,
                 .what = "the losses are not whole",
                 .where = path_,
                 .found = ErrnoText(errno)};
  }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  LossFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  std::unique_ptr<std::FILE, Closer> file_;
  std::string path_;
};

Json JsonOf(const PerplexityReport& report, const Runtime& runtime, bool fresh) {
  const EngineOptions& options = runtime.engine->options();
  Json segments = Json::array();
  for (const PerplexitySegment& segment : report.segments) {
    Json entry = {{"from", segment.from}, {"to", segment.to}, {"mean_nll", segment.mean_nll}};
    if (fresh) entry["fresh_mean_nll"] = segment.fresh_mean_nll;
    segments.push_back(std::move(entry));
  }
  return {{"model", runtime.model_name},
          {"policy", options.policy},
          {"anchors", options.window.anchors},
          {"window", options.window.capacity},
          {"tokens", report.tokens},
          {"mean_nll", report.mean_nll},
          {"perplexity", report.perplexity},
          {"seconds", report.seconds},
          {"tokens_per_second", report.tokens_per_second},
          {"resident_bytes_start", report.resident_bytes_start},
          {"resident_bytes_end", report.resident_bytes_end},
          {"segments", std::move(segments)}};
}

void PrintReport(const CommandContext& context, const PerplexityReport& report,
                 const Runtime& runtime, bool fresh) {
  if (context.global.json) {
    PrintJson(context.out, JsonOf(report, runtime, fresh));
    return;
  }
  Table table(fresh ? std::vector<std::string>{"tokens", "loss", "from empty", "gain"}
                    : std::vector<std::string>{"tokens", "loss"});
  for (const PerplexitySegment& segment : report.segments) {
    std::vector<std::string> row = {
        fmt::format("{} - {}", Grouped(segment.from), Grouped(segment.to)),
        fmt::format("{:.4f}", segment.mean_nll)};
    if (fresh) {
      row.push_back(fmt::format("{:.4f}", segment.fresh_mean_nll));
      row.push_back(fmt::format("{:+.4f}", segment.fresh_mean_nll - segment.mean_nll));
    }
    table.Add(std::move(row));
  }
  table.Print(context.out, context.global.color);
  const auto grown = static_cast<double>(report.resident_bytes_end) -
                     static_cast<double>(report.resident_bytes_start);
  Print(context.out,
        "\nperplexity {:.3f} (loss {:.4f} nats) over {} tokens, {:.0f} tokens/s; resident memory "
        "{} at first, {:+.2f} B per token since\n",
        report.perplexity, report.mean_nll, Grouped(report.tokens), report.tokens_per_second,
        HumanBytes(report.resident_bytes_start), grown / static_cast<double>(report.tokens));
}

Status WritePlot(const std::string& path, const PerplexityReport& report, const Runtime& runtime,
                 bool fresh) {
  const EngineOptions& options = runtime.engine->options();
  std::vector<PlotLine> lines = {{.label = "one conversation", .points = {}}};
  if (fresh) lines.push_back({.label = "from an empty window", .points = {}});
  for (const PerplexitySegment& segment : report.segments) {
    const double middle = static_cast<double>(segment.from + segment.to) / 2;
    lines[0].points.emplace_back(middle, segment.mean_nll);
    if (fresh) lines[1].points.emplace_back(middle, segment.fresh_mean_nll);
  }
  const std::string svg = LineChartSvg(
      {.title = fmt::format("{}, policy {}, window {}, {} anchors", runtime.model_name,
                            options.policy, options.window.capacity, options.window.anchors),
       .x_label = "tokens read",
       .y_label = "loss per token, nats"},
      lines);
  return WriteFileAtomically(path, std::as_bytes(std::span(svg)));
}

Status RunEvalPpl(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(const int64_t most,
                           IntegerFlag(context, "tokens", kMostTokens, 2, kMostTokens));
  MOORING_ASSIGN_OR_RETURN(const int64_t chunk,
                           IntegerFlag(context, "chunk", kDefaultChunk, 1, 4096));
  PerplexityOptions options;
  MOORING_ASSIGN_OR_RETURN(options.segment_tokens,
                           IntegerFlag(context, "segment", kDefaultSegment, 2, kMostTokens));
  options.fresh = !context.Has("no-fresh");
  options.interrupted = context.interrupted;

  MOORING_ASSIGN_OR_RETURN(const std::string text, ReadText(context.arguments[0]));
  MOORING_ASSIGN_OR_RETURN(Runtime runtime,
                           LoadRuntime(context, {.conversations = options.fresh ? 2 : 1,
                                                 .step_rows = static_cast<int>(chunk),
                                                 .logit_rows = static_cast<int>(chunk),
                                                 .chat_template = false}));
  for (const std::string& warning : runtime.warnings) {
    Print(context.err, "warning: {}\n", warning);
  }
  if (!context.global.quiet) PrintText(context.err, runtime.Description());
  std::vector<TokenId> tokens = runtime.tokenizer->Encode(text, Trust::kUntrusted);
  if (static_cast<int64_t>(tokens.size()) > most) tokens.resize(static_cast<size_t>(most));
  MOORING_ASSIGN_OR_RETURN(LossFile losses, LossFile::Create(context.Flag("nll", "")));
  std::optional<Result<PerplexityReport>> report;
  {
    ProgressLine line(context.err, !context.global.quiet, ProgressUnit::kTokens);
    report.emplace(MeasurePerplexity(
        *runtime.engine, tokens, options,
        [&losses](int64_t /*token*/, double loss) { losses.Write(loss); },
        [&line](int64_t done, int64_t total) {
          line.Update("reading", static_cast<uint64_t>(done), static_cast<uint64_t>(total));
        }));
  }
  if (!report->ok()) return report->error();
  MOORING_RETURN_IF_ERROR(losses.Close());
  if (context.Has("plot")) {
    MOORING_RETURN_IF_ERROR(
        WritePlot(context.Flag("plot", ""), report->value(), runtime, options.fresh));
  }
  PrintReport(context, report->value(), runtime, options.fresh);
  return {};
}

}  // namespace

Command EvalPplCommand() {
  return {.name = "eval ppl",
          .arguments = "FILE",
          .summary = "perplexity over an endless text, plain or .zst; - is standard input",
          .examples =
              "mooring eval ppl book.txt --window 1024 --tokens 200000\n"
              "mooring eval ppl book.txt.zst --anchors 0 --window 256 --plot anchors.svg\n"
              "mooring --json eval ppl book.txt --nll losses.txt",
          .min_arguments = 1,
          .max_arguments = 1,
          .loads_model = true,
          .flags = kFlags,
          .run = RunEvalPpl};
}

}  // namespace mooring
