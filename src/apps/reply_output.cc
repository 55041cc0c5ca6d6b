#include "apps/reply_output.h"

#include <cerrno>

#include "apps/output.h"
#include "base/files.h"
#include "base/process_memory.h"
#include "text/utf8.h"

namespace mooring {

std::string_view FinishReason(TurnEnd end) {
  return end == TurnEnd::kStopString ? "stop" : NameOf(end);
}

Status StatusOfEnd(TurnEnd end) {
  switch (end) {
    case TurnEnd::kStop:
    case TurnEnd::kStopString:
    case TurnEnd::kLength:
    case TurnEnd::kWindowFull:
      return {};
    case TurnEnd::kCancelled:
      return Error{.kind = ErrorKind::kInterrupted, .what = "stopped before the end of the answer"};
    case TurnEnd::kOutOfPages:
      return Error{.kind = ErrorKind::kResources, .what = "the pages ran out in the answer"};
    case TurnEnd::kNumericError:
      break;
  }
  return Error{.what = "the model's numbers were not finite",
               .remedy = "check the model file with `mooring verify`"};
}

double TokensPerSecond(const TurnStats& stats) {
  if (stats.generated_tokens < 2 || stats.generate_seconds <= 0.0) return 0.0;
  return static_cast<double>(stats.generated_tokens - 1) / stats.generate_seconds;
}

std::string TerminalText(std::string_view text) {
  constexpr uint32_t kFirstPrintable = 0x20;
  constexpr uint32_t kDelete = 0x7F;
  constexpr uint32_t kLastControl = 0x9F;
  std::string safe;
  while (!text.empty()) {
    const Utf8Char c = ReadUtf8(text);
    const bool whole = c.state == Utf8Char::State::kWhole;
    const bool control =
        !whole ||
        (c.code_point < kFirstPrintable && c.code_point != '\n' && c.code_point != '\t') ||
        (c.code_point >= kDelete && c.code_point <= kLastControl);
    safe += control ? kReplacementCharacter : text.substr(0, c.size);
    text.remove_prefix(c.size);
  }
  return safe;
}

void ReplySink::OnText(std::string_view text) {
  text_ += text;
  if (style_.out == nullptr || output_failed()) return;
  errno = 0;
  PrintText(style_.out, style_.terminal ? TerminalText(text) : std::string(text));
  if (std::fflush(style_.out) == 0) return;
  output_error_ = errno != 0 ? errno : EIO;
  if (stop_ != nullptr) stop_->store(true);
}

Status ReplySink::written() const {
  if (output_error_ == 0 || output_error_ == EPIPE) return {};
  return Error{.kind = KindOfErrno(output_error_),
               .what = "cannot write the answer",
               .where = "output",
               .found = ErrnoText(output_error_)};
}

void ReplySink::OnRecall(std::span<const RecalledSpan> recalled) {
  for (const RecalledSpan& span : recalled) {
    if (span.messages == 0) recalled_.push_back(span.range);
  }
}

void ReplySink::OnEnd(TurnEnd end, const TurnStats& stats) {
  end_ = end;
  stats_ = stats;
}

Json ReplyJson(const ReplySink& sink, const MemoryView& view, uint64_t seed) {
  const TurnStats& stats = sink.stats();
  constexpr double kMilliseconds = 1000.0;
  return {{"text", sink.text()},
          {"finish_reason", FinishReason(sink.end())},
          {"generated_tokens", stats.generated_tokens},
          {"log_tokens", view.log_tokens},
          {"window", WindowJson(view)},
          {"forgotten_tokens", view.forgotten()},
          {"tokens_per_second", TokensPerSecond(stats)},
          {"timings",
           {{"first_token_ms", stats.read_seconds * kMilliseconds},
            {"total_ms", (stats.read_seconds + stats.generate_seconds) * kMilliseconds}}},
          {"seed", seed},
          {"resident_bytes", ResidentBytes()}};
}

}  // namespace mooring
