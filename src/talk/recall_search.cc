#include <algorithm>
#include <cmath>
#include <vector>

#include "talk/recall.h"

namespace mooring {
namespace {

// BM25: Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009.
constexpr double kSaturation = 1.2;     // k1: how soon more of the same word says nothing more
constexpr double kLengthWeight = 0.75;  // b: how far a long span must hold more of it

// A term in more spans than this part says nothing. In a short talk every term would be in too
// large a part, so that up to so many spans it counts all the same; its weight is small enough.
constexpr double kCommonPart = 0.2;
constexpr double kCommonSpans = 8;

// Words count beside meaning when some span holds at least this share of the message's.
constexpr float kWordsShare = 0.5F;
// Spans this far from the median to the best are hits.
constexpr double kCut = 0.7;
// A hit this near to the best one is about the same thing.
constexpr double kLike = 0.6;
// Values that differ by less are equal but for rounding: they stand out in nothing.
constexpr double kLeastDeviation = 1e-9;

// Scores are whole multiples of one over this: what differs by the order of a sum alone is a tie,
// also where a mean cancels what would be the leading digits.
constexpr double kScoreSteps = 1048576;

// Never negative, unlike the original's: a term of most spans would count against those that hold
// it.
double InverseFrequency(double span_count, double holding) {
  return std::log1p((span_count - holding + 0.5) / (holding + 0.5));
}

// How values lie: a value in standard deviations from the mean, 0 when all are equal.
struct Spread {
  double mean = 0;
  double per_deviation = 0;

  double Standardise(double value) const { return (value - mean) * per_deviation; }
};

template <typename Rows, typename Value>
Spread SpreadOf(const Rows& rows, Value value) {
  const auto count = static_cast<double>(rows.size());
  double sum = 0;
  for (const auto& row : rows) sum += row.*value;
  const double mean = sum / count;
  double squares = 0;
  for (const auto& row : rows) squares += (row.*value - mean) * (row.*value - mean);
  const double deviation = std::sqrt(squares / count);
  return {mean, deviation > kLeastDeviation ? 1 / deviation : 0};
}

// The middle value, or the mean of the two in the middle. REQUIRES: not empty.
double MedianOf(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (double{*middle} + double{*std::max_element(values.begin(), middle)}) / 2;
}

// Keeps what stands out, the best first and of equals the newest.
template <typename Rows>
void KeepBest(Rows* rows, size_t most) {
  std::vector<float> scores;
  scores.reserve(rows->size());
  for (const auto& row : *rows) scores.push_back(row.score);
  const double best = *std::ranges::max_element(scores);
  const double median = MedianOf(std::move(scores));
  std::erase_if(*rows,
                [&](const auto& row) { return row.score - median < kCut * (best - median); });
  const auto end = rows->begin() + static_cast<ptrdiff_t>(std::min(most, rows->size()));
  std::partial_sort(rows->begin(), end, rows->end(), [](const auto& a, const auto& b) {
    return a.score != b.score ? a.score > b.score : a.span > b.span;
  });
  rows->erase(end, rows->end());
}

}  // namespace

void Recall::WeighWords(std::span<const TokenId> tokens, std::vector<Evidence>* evidence) const {
  const double live = live_count_;
  const double mean_words = static_cast<double>(word_count_) / live;
  double total = 0;
  for (const TermCount& term : CountTerms(*terms_, tokens)) {
    const PostingList* list = words_.Find(term.term);
    const double holding = list == nullptr ? 0 : std::min(live, list->SpanFrequency(span_count()));
    if (holding > std::max(kCommonSpans, kCommonPart * live)) continue;
    const double weight = InverseFrequency(live, holding);
    total += weight;
    if (list == nullptr) continue;
    list->ForEach([&](SpanId span, uint32_t count) {
      const double length = spans_[span].words / mean_words;
      const double norm = kSaturation * (1 - kLengthWeight + kLengthWeight * length);
      (*evidence)[span].share += weight;
      (*evidence)[span].bm25 += weight * count / (count + norm);
    });
  }
  if (total == 0) return;
  for (Evidence& of : *evidence) of.share /= total;
}

std::vector<Recall::Evidence> Recall::Weigh(std::span<const TokenId> tokens,
                                            const QueryVector& vector) const {
  const bool by_meaning = vector.square > 0;
  std::vector<Evidence> evidence(spans_.size());
  WeighWords(tokens, &evidence);
  for (SpanId span = 0; span < span_count(); ++span) {
    evidence[span].span = span;
    if (by_meaning) evidence[span].cosine = vectors_.Cosine(vector, span);
  }
  std::erase_if(evidence, [&](const Evidence& of) { return spans_[of.span].forgotten; });
  float best_share = 0;
  for (const Evidence& of : evidence) {
    best_share = std::max(best_share, static_cast<float>(of.share));
  }
  const bool by_words = !by_meaning || best_share >= kWordsShare;
  const Spread cosines = SpreadOf(evidence, &Evidence::cosine);
  const Spread bm25s = SpreadOf(evidence, &Evidence::bm25);
  for (Evidence& of : evidence) {
    const double score =
        cosines.Standardise(of.cosine) + (by_words ? bm25s.Standardise(of.bm25) : 0);
    of.score = static_cast<float>(std::round(score * kScoreSteps) / kScoreSteps);
  }
  return evidence;
}

RecallHit Recall::HitOf(const Evidence& evidence, bool sure) const {
  return {.span = evidence.span,
          .range = spans_[evidence.span].range,
          .cosine = evidence.cosine,
          .share = evidence.share,
          .bm25 = evidence.bm25,
          .score = evidence.score,
          .landing = sure ? Landing::kBeforeMessage : Landing::kBehindAnchors};
}

std::vector<RecallHit> Recall::Search(const RecallQuery& query) const {
  if (live_count_ == 0) return {};
  const QueryVector vector = vectors_.Prepare(query.vector);
  const bool by_meaning = vector.square > 0;
  std::vector<Evidence> found = Weigh(query.tokens, vector);
  KeepBest(&found, kMaxHits);
  const auto reaches = [by_meaning](const Evidence& of, double cosine, double share) {
    return (by_meaning && of.cosine >= cosine) || of.share >= share;
  };
  const Evidence best = found.front();
  if (!reaches(best, settings_.gates.least_cosine, settings_.gates.least_share)) return {};

  // Of all that says the same as the best hit the newest is what holds, and takes its place.
  const auto like_best = [&](const Evidence& of) {
    return of.span == best.span || vectors_.Cosine(of.span, best.span) >= kLike;
  };
  Evidence newest = best;
  for (const Evidence& of : found) {
    if (of.span > newest.span && like_best(of)) newest = of;
  }
  const auto sure = [&](const Evidence& of) {
    return reaches(of, settings_.gates.near_cosine, settings_.gates.near_share);
  };
  const auto in_window = [&](const Evidence& of) {
    return spans_[of.span].range.from >= query.window_from;
  };
  std::vector<RecallHit> hits;
  for (auto of = found.rbegin(); of != found.rend(); ++of) {
    if (!like_best(*of) && !in_window(*of)) hits.push_back(HitOf(*of, sure(*of)));
  }
  if (!in_window(newest)) hits.push_back(HitOf(newest, sure(newest) || sure(best)));
  return hits;
}

}  // namespace mooring
