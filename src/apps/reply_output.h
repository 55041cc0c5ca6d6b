// How an answer comes out: text as it is made, and what is said about it afterwards.
//
// Thread rule: one thread.
#ifndef MOORING_APPS_REPLY_OUTPUT_H_
#define MOORING_APPS_REPLY_OUTPUT_H_

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "apps/memory_view.h"
#include "base/result.h"
#include "engine/turn.h"

namespace mooring {

// Why an answer ended, in the words of the HTTP interface: "stop", "length", "cancelled", ...
std::string_view FinishReason(TurnEnd end);

// kFailed for an end that means that something is wrong, not merely over.
Status StatusOfEnd(TurnEnd end);

// Tokens generated per second after the first; 0 when there are fewer than two.
double TokensPerSecond(const TurnStats& stats);

// Text without what could steer a terminal: control characters other than line feed and tab become
// U+FFFD.
std::string TerminalText(std::string_view text);

struct ReplyStyle {
  std::FILE* out = nullptr;  // null: the text is only collected
  bool terminal = false;     // make the text safe for one
};

// Writes the answer while it is made. When it cannot be written any more, `*stop` is set.
class ReplySink : public Sink {
 public:
  ReplySink(const ReplyStyle& style, std::atomic<bool>* stop) : style_(style), stop_(stop) {}

  void OnText(std::string_view text) override;
  void OnRecall(std::span<const RecalledSpan> recalled) override;
  void OnEnd(TurnEnd end, const TurnStats& stats) override;

  const std::string& text() const { return text_; }
  TurnEnd end() const { return end_; }
  const TurnStats& stats() const { return stats_; }
  // What this message called back, or asked for again.
  const std::vector<LogRange>& recalled() const { return recalled_; }
  // Whether the text could be written: good again when nobody is there to read it, for that is how
  // `| head` ends.
  Status written() const;
  bool output_failed() const { return output_error_ != 0; }

 private:
  ReplyStyle style_;
  std::atomic<bool>* stop_;
  std::string text_;
  TurnEnd end_ = TurnEnd::kCancelled;
  TurnStats stats_;
  std::vector<LogRange> recalled_;
  int output_error_ = 0;  // errno of the first failure
};

// What every command tells of an answer in JSON: text, how it ended, tokens, window, times, seed.
// `view` is the conversation as it is afterwards.
Json ReplyJson(const ReplySink& sink, const MemoryView& view, uint64_t seed);

}  // namespace mooring

#endif  // MOORING_APPS_REPLY_OUTPUT_H_
