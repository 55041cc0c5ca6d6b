#include "eval/recall_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/random.h"
#include "eval/fact_wordings.h"
#include "talk/dialogue.h"

namespace mooring {
namespace {

constexpr int64_t kAnswerTokens = 12;
constexpr size_t kFillerBytes = 600;  // of one message, some 130 tokens

struct Fact {
  const FactSubject* subject = nullptr;
  const FactWording* wording = nullptr;
  std::string number;
  LogRange range;
};

// What the message called back.
class RecallSink : public Sink {
 public:
  void OnText(std::string_view text) override { text_ += text; }
  void OnRecall(std::span<const RecalledSpan> recalled) override {
    for (const RecalledSpan& span : recalled) recalled_.push_back(span.range);
  }
  const std::string& text() const { return text_; }
  const std::vector<LogRange>& recalled() const { return recalled_; }

 private:
  std::string text_;
  std::vector<LogRange> recalled_;
};

// The first run of four digits or more.
std::string FirstNumber(std::string_view text) {
  std::string number;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) != 0) {
      number += c;
    } else if (number.size() >= 4) {
      break;
    } else {
      number.clear();
    }
  }
  return number.size() >= 4 ? number : "";
}

class FactTalk {
 public:
  FactTalk(Engine* engine, const TermTable& terms, Dialogue dialogue, std::string_view filler,
           const RecallFactsOptions& options, uint64_t stream)
      : engine_(engine),
        terms_(terms),
        dialogue_(std::move(dialogue)),
        filler_(filler),
        options_(options),
        stream_(stream) {}

  const std::vector<Fact>& facts() const { return facts_; }

  Status Build() {
    DrawFacts();
    // Something else first: what stands in the anchors is never out of sight.
    MOORING_RETURN_IF_ERROR(ReadFiller());
    for (Fact& fact : facts_) {
      const LogIndex from = end();
      MOORING_RETURN_IF_ERROR(Read(Said(fact), fact.wording->reply));
      fact.range = {from, end()};
    }
    const LogIndex last = end();
    while (end() - last < options_.distance) MOORING_RETURN_IF_ERROR(ReadFiller());
    return {};
  }

  Result<RecallItem> Ask(const Fact& fact) {
    RecallItem item;
    item.question = Question(fact);
    if (options_.other_words) MOORING_RETURN_IF_ERROR(CheckOtherWords(fact, item.question));
    item.number = fact.number;
    item.distance = end() - fact.range.from;
    const std::string start = fmt::format("Your {} is", fact.subject->name);
    MOORING_ASSIGN_OR_RETURN(item.without, Answer(item, start, false, {}));
    MOORING_ASSIGN_OR_RETURN(item.with_recall, Answer(item, start, true, {}));
    item.found = std::ranges::any_of(
        item.recalled, [&fact](const LogRange& range) { return range.Overlaps(fact.range); });
    std::vector<LogRange> recalled = std::move(item.recalled);
    MOORING_ASSIGN_OR_RETURN(item.gold, Answer(item, start, true, {{fact.range, false}}));
    item.recalled = std::move(recalled);
    return item;
  }

 private:
  LogIndex end() const { return engine_->Find(dialogue_.id())->log().end(); }

  static std::string Said(const Fact& fact) {
    return fmt::format(fmt::runtime(fact.wording->said), fact.subject->name, fact.number);
  }
  std::string Question(const Fact& fact) const {
    if (!options_.other_words) {
      return fmt::format(fmt::runtime(fact.wording->asked), fact.subject->name);
    }
    return std::string(options_.tuning_wordings ? fact.subject->tuning : fact.subject->report);
  }

  // No term of the question, in any case or spacing, is one of the fact.
  Status CheckOtherWords(const Fact& fact, std::string_view question) const {
    const auto terms_of = [this](std::string_view text) {
      std::set<TermId> terms;
      for (const TokenId token : engine_->tokenizer().Encode(text, Trust::kUntrusted)) {
        terms.insert(terms_.term(token));
      }
      return terms;
    };
    std::set<TermId> allowed = {kNoTerm};
    for (const std::string_view word : kFunctionWords) allowed.merge(terms_of(word));
    const std::set<TermId> said = terms_of(Said(fact));
    for (const TermId term : terms_of(question)) {
      if (allowed.contains(term) || !said.contains(term)) continue;
      return Error{.kind = ErrorKind::kFailed,
                   .what = "a question shares a word with the fact that it asks for",
                   .where = std::string(question),
                   .found = Said(fact)};
    }
    return {};
  }

  void DrawFacts() {
    const auto& wordings = options_.tuning_wordings ? kTuningWordings : kReportWordings;
    std::set<const FactSubject*> subjects;
    std::set<std::string> numbers;
    for (uint64_t i = 0; facts_.size() < kFactsPerTalk; ++i) {
      const uint64_t bits = RandomBits(options_.seed, stream_, i);
      Fact fact;
      fact.subject = &kFactSubjects[bits % kFactSubjects.size()];
      fact.wording = &wordings[(bits >> 16) % wordings.size()];
      fact.number = fmt::format("{}", 1000 + (bits >> 32) % 9000);
      if (subjects.insert(fact.subject).second && numbers.insert(fact.number).second) {
        facts_.push_back(std::move(fact));
      }
    }
  }

  Status Read(std::string_view message, std::string_view reply) {
    MOORING_RETURN_IF_ERROR(dialogue_.ReadMessage(message, options_.interrupted));
    return dialogue_.ReadAnswer(reply, options_.interrupted);
  }

  Status ReadFiller() {
    // Each talk reads on from a place of its own.
    const size_t start = (RandomUniform(options_.seed, stream_, 1U << 20) * 0.5 *
                          static_cast<double>(filler_.size())) +
                         filler_at_;
    size_t from = filler_.find_first_of(" \n", start);
    if (from == std::string_view::npos || from + 2 * kFillerBytes > filler_.size()) {
      return Error{.kind = ErrorKind::kUsage,
                   .what = "the text is too short for this distance",
                   .where = "distance",
                   .expected = "a text of ten bytes and more per token",
                   .found = fmt::format("{} bytes", filler_.size())};
    }
    const size_t to = filler_.find_first_of(" \n", from + kFillerBytes);
    filler_at_ += to - from;
    return Read(filler_.substr(from, to - from), "I see.");
  }

  Result<RecallAnswer> Answer(RecallItem& item, std::string_view start, bool recall,
                              std::vector<OfferedSpan> given) {
    MOORING_ASSIGN_OR_RETURN(Dialogue fork, dialogue_.Fork());
    if (!recall) fork.Forget();
    TurnRequest request;
    request.max_tokens = kAnswerTokens;
    request.sampler.temperature = 0;
    request.stop = {"\n"};
    request.found = std::move(given);
    RecallSink sink;
    MOORING_ASSIGN_OR_RETURN(
        [[maybe_unused]] const TurnEnd end,
        fork.Say(item.question, std::move(request), &sink, options_.interrupted, start));
    if (options_.interrupted != nullptr && options_.interrupted->load()) {
      return Error{.kind = ErrorKind::kInterrupted, .what = "stopped"};
    }
    item.recalled = sink.recalled();
    return RecallAnswer{sink.text(), FirstNumber(sink.text()) == item.number};
  }

  Engine* engine_;
  const TermTable& terms_;
  Dialogue dialogue_;
  std::string_view filler_;
  const RecallFactsOptions& options_;
  uint64_t stream_;
  size_t filler_at_ = 0;
  std::vector<Fact> facts_;
};

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

double RecallFactsReport::SpanHit() const {
  return Share(std::ranges::count(items, true, &RecallItem::found), std::ssize(items));
}

double RecallFactsReport::Accuracy(RecallAnswer RecallItem::*answer) const {
  return Share(
      std::ranges::count_if(items, [&](const RecallItem& item) { return (item.*answer).right; }),
      std::ssize(items));
}

double RecallFactsReport::Retention() const {
  const auto gold =
      std::ranges::count_if(items, [](const RecallItem& item) { return item.gold.right; });
  const auto both = std::ranges::count_if(
      items, [](const RecallItem& item) { return item.gold.right && item.with_recall.right; });
  return Share(both, gold);
}

Result<RecallFactsReport> MeasureRecallOfFacts(
    Engine& engine, const ChatTemplate& chat_template, const TermTable& terms,
    const Meaning& meaning, std::string_view filler, const RecallFactsOptions& options,
    FunctionRef<void(int64_t done, int64_t total)> on_progress) {
  const double started = MonotonicSeconds();
  RecallFactsReport report;
  for (uint64_t talk_number = 0; std::ssize(report.items) < options.items; ++talk_number) {
    MOORING_ASSIGN_OR_RETURN(Dialogue dialogue, Dialogue::Create(&engine, &chat_template, {}));
    dialogue.Remember(&terms, meaning);
    FactTalk talk(&engine, terms, std::move(dialogue), filler, options, talk_number);
    MOORING_RETURN_IF_ERROR(talk.Build());
    for (const Fact& fact : talk.facts()) {
      if (std::ssize(report.items) == options.items) break;
      MOORING_ASSIGN_OR_RETURN(RecallItem item, talk.Ask(fact));
      report.items.push_back(std::move(item));
      on_progress(std::ssize(report.items), options.items);
    }
  }
  report.seconds = MonotonicSeconds() - started;
  return report;
}

}  // namespace mooring
