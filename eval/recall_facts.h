// Facts said once and asked for much later, in the same words or in others: does the conversation
// still know them? One talk after another: six facts of a like kind, then filler from a text until
// each lies far behind, then each question on a fork that is dropped. Every question is answered
// three times: with nothing called back, with what the search finds, and with exactly the right
// span ("gold"), which is what this model could answer at best. The answers begin with "Your gate
// code is": what is measured is what the conversation knows, not how a small model likes to begin.
//
// Thread rule: as Engine.
#ifndef MOORING_EVAL_RECALL_FACTS_H_
#define MOORING_EVAL_RECALL_FACTS_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/engine.h"
#include "talk/long_memory.h"
#include "talk/term_table.h"
#include "text/chat_template.h"

namespace mooring {

inline constexpr int kFactsPerTalk = 6;

struct RecallFactsOptions {
  int64_t distance = 5000;  // tokens between the last fact and the questions
  int64_t items = 24;       // questions in all
  uint64_t seed = 1;
  bool tuning_wordings = false;  // false: those that nothing was ever tuned on
  bool other_words = false;      // questions share no word of meaning with what was said
  const std::atomic<bool>* interrupted = nullptr;
};

// An answer counts when the number that it names first is the right one.
struct RecallAnswer {
  std::string text;
  bool right = false;
};

struct RecallItem {
  std::string question;
  std::string number;
  int64_t distance = 0;  // tokens from the fact to the question
  bool found = false;    // the search brought the span of the fact back
  std::vector<LogRange> recalled;
  RecallAnswer without, with_recall, gold;
};

struct RecallFactsReport {
  std::vector<RecallItem> items;
  double seconds = 0.0;

  double SpanHit() const;  // shares of all items
  double Accuracy(RecallAnswer RecallItem::*answer) const;
  // Of the items that `gold` answers, the share that is answered with recall; 0 when there is none.
  double Retention() const;
};

// Needs an engine of two conversations under policy `recall`. kInterrupted; kUsage when the text is
// too short for the distance; kFailed for a question that shares a word which it must not; what
// Dialogue says otherwise.
Result<RecallFactsReport> MeasureRecallOfFacts(
    Engine& engine, const ChatTemplate& chat_template, const TermTable& terms,
    const Meaning& meaning, std::string_view filler, const RecallFactsOptions& options,
    FunctionRef<void(int64_t done, int64_t total)> on_progress);

}  // namespace mooring

#endif  // MOORING_EVAL_RECALL_FACTS_H_
