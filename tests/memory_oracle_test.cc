// The window and its pages against a naive twin that keeps every key unrotated in double, and
// recomputes attention from the rule in docs/memory.md. Random appends in chunks, messages with
// spans that come back, rewinds, forks and ways through a snapshot; compared after each.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "kernels/select.h"
#include "memory/window.h"

namespace mooring::test {
namespace {

constexpr int kHeads = 2;  // of one layer
constexpr int kDim = 32;
constexpr int kMaxRows = 48;

uint64_t TestSeed() {
  const char* fixed = std::getenv("MOORING_TEST_SEED");
  return fixed != nullptr ? std::strtoull(fixed, nullptr, 10) : std::random_device{}();
}

struct Token {
  std::array<std::array<float, kDim>, kHeads> key, value, query;  // not rotated
};

// What the rule says, in double.
class NaiveWindow {
 public:
  explicit NaiveWindow(const WindowShape& shape, const RotarySpec& rotary)
      : shape_(shape), rotary_(rotary), origin_(shape.anchors) {}

  std::vector<Token>& log() { return log_; }
  int64_t end() const { return static_cast<int64_t>(log_.size()); }

  void Append(const Token& token) {
    const int64_t index = end();
    if (index >= shape_.anchors &&
        (pages_.empty() || closed_ || index - pages_.back() == kPageSlots)) {
      pages_.push_back(index);
      closed_ = false;
    }
    log_.push_back(token);
  }
  void Rewind(int64_t count) {
    log_.resize(log_.size() - static_cast<size_t>(count));
    while (!pages_.empty() && pages_.back() >= end()) pages_.pop_back();
    closed_ = LandedHere();
  }

  // A message begins: `plan` was proposed for the facts, `tokens[i]` is what plan.recall[i] gave.
  void StartMessage(const Plan& plan, std::vector<std::vector<Token>> tokens) {
    if (!plan.changes_spans()) return;
    int64_t floor = SeenFrom(end());
    for (size_t i = plan.release.size(); i > 0; --i) {
      spans_.erase(spans_.begin() + plan.release[i - 1]);
    }
    const bool tail_open =
        !pages_.empty() && end() > pages_.back() && end() - pages_.back() < kPageSlots;
    bool closes = false;
    for (size_t i = 0; i < tokens.size(); ++i) {
      spans_.push_back({std::move(tokens[i]), end(), plan.recall[i].behind_anchors});
      closes = closes || !plan.recall[i].behind_anchors;
    }
    floor = std::max(floor, SeenFrom(end()));
    floor_ = std::max(floor, closes && tail_open ? EndOfShortPages(floor) : 0);
    closed_ = LandedHere();
    origin_ = shape_.anchors;
    for (const int64_t page : pages_) origin_ = page <= floor_ ? page : origin_;
  }

  std::vector<double> Attend(int64_t t, int head, double scale) const {
    const int64_t edge = shape_.anchors + shape_.recent();
    int64_t position = t - origin_ + shape_.anchors;
    for (const Span& span : spans_) position += static_cast<int64_t>(span.tokens.size());
    std::vector<Seen> seen;
    for (int64_t j = 0; j <= t; ++j) {
      if (!Visible(t, j)) continue;
      int64_t distance = std::min(position, edge) - j;
      if (j >= shape_.anchors) {
        distance = t - j;
        for (const Span& span : spans_) {
          const bool between = !span.behind_anchors && j < span.landed && span.landed <= t;
          distance += between ? static_cast<int64_t>(span.tokens.size()) : 0;
        }
      }
      seen.push_back({&log_[static_cast<size_t>(j)], distance});
    }
    int64_t behind_anchors = shape_.anchors;
    for (const Span& span : spans_) {
      // From the row to the message (no further than a row of this window sees), and over the spans
      // that landed later.
      int64_t distance = std::min(t - std::max(span.landed, origin_), Recent());
      for (const Span* other = &span; other != spans_.data() + spans_.size(); ++other) {
        distance += other->behind_anchors ? 0 : static_cast<int64_t>(other->tokens.size());
      }
      for (const Token& token : span.tokens) {
        seen.push_back({&token, span.behind_anchors ? std::min(position, edge) - behind_anchors++
                                                    : distance--});
      }
    }
    return Sum(t, head, scale, seen);
  }

 private:
  struct Seen {
    const Token* token;
    int64_t distance;
  };
  struct Span {
    std::vector<Token> tokens;
    int64_t landed;
    bool behind_anchors;
  };

  bool LandedHere() const {
    return std::ranges::any_of(
        spans_, [this](const Span& span) { return !span.behind_anchors && span.landed == end(); });
  }
  int64_t Recent() const {
    int64_t recent = shape_.recent();
    for (const Span& span : spans_) recent -= static_cast<int64_t>(span.tokens.size());
    return recent;
  }
  int64_t SeenFrom(int64_t t) const {
    return std::max<int64_t>({shape_.anchors, floor_, t - Recent()});
  }
  // Of the pages that row sees something of, only so many may be short.
  int64_t EndOfShortPages(int64_t floor) const {
    std::vector<int64_t> ends;
    for (size_t i = 0; i < pages_.size(); ++i) {
      const int64_t page_end = i + 1 < pages_.size() ? pages_[i + 1] : end();
      if (page_end > floor && page_end - pages_[i] < kPageSlots) ends.push_back(page_end);
    }
    return ends.size() > kMaxShortPages ? ends[ends.size() - kMaxShortPages - 1] : 0;
  }
  bool Visible(int64_t t, int64_t j) const {
    if (j < shape_.anchors) return true;
    int64_t first = SeenFrom(t);
    if (shape_.expire_by_page) {
      const auto page = std::ranges::lower_bound(pages_, first);
      first = page == pages_.end() ? t : std::min(*page, t);
    }
    return first <= j;
  }

  std::vector<double> Sum(int64_t t, int head, double scale, const std::vector<Seen>& seen) const {
    const auto h = static_cast<size_t>(head);
    std::vector<double> scores;
    for (const Seen& key : seen) {
      scores.push_back(
          scale * Score(log_[static_cast<size_t>(t)].query[h], key.token->key[h], key.distance));
    }
    const double largest = *std::ranges::max_element(scores);
    std::vector<double> out(kDim, 0.0);
    double sum = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double weight = std::exp(scores[i] - largest);
      sum += weight;
      for (size_t d = 0; d < kDim; ++d) {
        out[d] += weight * static_cast<double>(seen[i].token->value[h][d]);
      }
    }
    for (double& item : out) item /= sum;
    return out;
  }
  double Score(const std::array<float, kDim>& q, const std::array<float, kDim>& k,
               int64_t distance) const {
    const int half = rotary_.rotary_dim / 2;
    double score = 0;
    for (int i = 0; i < half; ++i) {
      const double angle =
          static_cast<double>(distance) * std::pow(rotary_.base, -2.0 * i / rotary_.rotary_dim);
      const auto at = static_cast<size_t>(i);
      const auto other = static_cast<size_t>(i + half);
      const double a = q[at], b = q[other], c = k[at], d = k[other];
      score += std::cos(angle) * (a * c + b * d) + std::sin(angle) * (a * d - b * c);
    }
    for (int i = 2 * half; i < kDim; ++i) {
      score += static_cast<double>(q[static_cast<size_t>(i)]) *
               static_cast<double>(k[static_cast<size_t>(i)]);
    }
    return score;
  }

  WindowShape shape_;
  RotarySpec rotary_;
  std::vector<Token> log_;
  std::vector<int64_t> pages_;  // where each page behind the anchors begins
  std::vector<Span> spans_;     // in the order in which they landed
  bool closed_ = false;         // the last page takes nothing more
  int64_t floor_ = 0;           // behind the anchors and before this nothing is seen
  int64_t origin_;              // where the oldest page began when spans last changed
};

class Twins {
 public:
  Twins(const WindowShape& shape, const Policy* policy, DType type, uint64_t seed)
      : layout_{type, kDim},
        shape_(shape),
        policy_(policy),
        kernels_(**SelectKernels("")),
        table_(rotary_, WindowTurnCount(shape)),
        pool_(std::move(PagePool::Create(layout_.page_bytes(), 4096)).value()),
        window_(std::make_unique<Window>(shape, layout_, 1, kHeads, kMaxRows, pool_.get())),
        naive_(shape, rotary_),
        random_(seed),
        arena_(1 << 16) {}

  int64_t length() const { return window_->next().value; }
  const WindowShape& shape() const { return shape_; }

  void Append(int rows) {
    arena_.Reset();
    window_->Apply(policy_->Propose(window_->Facts(), arena_));
    std::vector<RowPlace> places(static_cast<size_t>(rows));
    ASSERT_TRUE(window_->Extend(rows, places));
    const KvView view = window_->View();
    for (int row = 0; row < rows; ++row) {
      const Token token = Draw();
      naive_.Append(token);
      Store(token, places[static_cast<size_t>(row)], view);
    }
    for (int row = 0; row < rows; ++row) {
      for (int head = 0; head < kHeads; ++head) {
        Compare(places[static_cast<size_t>(row)], length() + row, head, view);
      }
    }
    window_->Commit();
    const int64_t bound = WindowPageBound(shape_, kHeads, kMaxRows);
    EXPECT_LE(window_->held_pages(), bound);
    EXPECT_EQ(pool_->free_count() + static_cast<size_t>(window_->held_pages()) + forked_pages_,
              pool_->page_count());
  }

  // The spans are anywhere in the log: their tokens are drawn anew, as reading again gives others.
  void StartMessage(std::span<const OfferedSpan> offered) {
    arena_.Reset();
    WindowFacts facts = window_->Facts();
    facts.message_start = true;
    facts.offered = offered;
    const Plan plan = policy_->Propose(facts, arena_);
    std::vector<Window> reread;
    std::vector<std::vector<Token>> tokens;
    for (const OfferedSpan& span : plan.recall) {
      reread.push_back(window_->AnchorsAlone());
      tokens.emplace_back();
      while (std::ssize(tokens.back()) < span.range.tokens()) {
        std::vector<RowPlace> places(static_cast<size_t>(
            std::min<int64_t>(7, span.range.tokens() - std::ssize(tokens.back()))));
        ASSERT_TRUE(reread.back().Extend(static_cast<int>(places.size()), places));
        for (const RowPlace& place : places) {
          tokens.back().push_back(Draw());
          Store(tokens.back().back(), place, reread.back().View());
        }
        reread.back().Commit();
      }
    }
    naive_.StartMessage(plan, std::move(tokens));
    window_->Apply(plan, true, reread);
    recalled_ += std::ssize(plan.recall);
    EXPECT_LE(window_->recalled_slots(), shape_.recalled);
  }
  int64_t recalled() const { return recalled_; }

  void Rewind(int count) {
    count = static_cast<int>(std::min<int64_t>(count, window_->RewindBound()));
    window_->Rewind(count);
    naive_.Rewind(count);
  }

  // Goes on in a fork, after the original has written over its own tail.
  void Fork() {
    Window fork = window_->Fork();
    const NaiveWindow kept = naive_;
    forked_pages_ = pool_->page_count();  // not counted while both live
    // As before every step: the bound counts on it.
    arena_.Reset();
    window_->Apply(policy_->Propose(window_->Facts(), arena_));
    std::vector<RowPlace> places(1);
    ASSERT_TRUE(window_->Extend(1, places));
    const KvView view = window_->View();
    const Token garbage = Draw();
    Store(garbage, places[0], view);
    window_->Commit();
    window_ = std::make_unique<Window>(std::move(fork));
    forked_pages_ = 0;
    naive_ = kept;
  }

  void Snapshot() {
    std::string bytes;
    window_->AppendSnapshot(&bytes);
    auto restored = std::make_unique<Window>(shape_, layout_, 1, kHeads, kMaxRows, pool_.get());
    const Status status = restored->RestoreSnapshot(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(status.ok()) << status.error().Message();
    std::string again;
    restored->AppendSnapshot(&again);
    EXPECT_EQ(bytes, again);
    window_ = std::move(restored);
  }

 private:
  Token Draw() {
    std::normal_distribution<float> normal;
    Token token;
    for (auto* rows : {&token.key, &token.value, &token.query}) {
      for (auto& row : *rows) {
        for (float& item : row) item = normal(random_);
      }
    }
    // What the page can hold exactly, so that the oracle sees the same numbers.
    if (layout_.dtype == DType::kF16) {
      for (auto& row : token.value) {
        for (float& item : row) item = FloatFromHalf(HalfFromFloat(item));
      }
    }
    return token;
  }

  void Store(const Token& token, const RowPlace& place, const KvView& view) {
    for (int head = 0; head < kHeads; ++head) {
      const auto pages = view.head(0, head).pages;
      kernels_.Append(layout_, &table_, place.slot, token.key[static_cast<size_t>(head)].data(),
                      token.value[static_cast<size_t>(head)].data(),
                      pages[pages.size() - static_cast<size_t>(place.pages_from_end)].data);
    }
  }

  void Compare(const RowPlace& place, int64_t t, int head, const KvView& view) {
    const auto pages = view.head(0, head).pages;
    const Token& token = naive_.log()[static_cast<size_t>(t)];
    const double scale = 1.0 / std::sqrt(double{kDim});
    AttendTask task;
    task.layout = layout_;
    task.pages = pages.data();
    task.page_count = static_cast<int64_t>(pages.size());
    task.rotary = &table_;
    task.places = &place;
    task.row_count = 1;
    task.group = 1;
    task.queries = token.query[static_cast<size_t>(head)].data();
    task.query_stride = kDim;
    task.scale = static_cast<float>(scale);
    std::vector<float> state(static_cast<size_t>(AttentionStateFloats(kDim)));
    std::vector<float> run(state.size());
    std::vector<float> scratch(static_cast<size_t>(AttendScratchFloats(kDim, 1)) + 16);
    float* aligned =
        scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) / 4 % 16;
    // Pages one by one and merged: any cut gives the same sum up to rounding.
    kernels_.AttendPages(task, 0, 1, state.data(), aligned);
    for (int64_t page = 1; page < task.page_count; ++page) {
      kernels_.AttendPages(task, page, page + 1, run.data(), aligned);
      kernels_.MergeAttention(run.data(), kDim, state.data());
    }
    std::vector<float> found(kDim);
    kernels_.FinishAttention(state.data(), kDim, found.data());
    const std::vector<double> expected = naive_.Attend(t, head, scale);
    // Half keys: scores are sums of 32 products of unit normals, each off by 2^-11 at most.
    const double tolerance = layout_.dtype == DType::kF16 ? 2e-2 : 2e-5;
    for (size_t d = 0; d < kDim; ++d) {
      ASSERT_NEAR(static_cast<double>(found[d]), expected[d], tolerance) << "row " << t;
    }
  }

  RotarySpec rotary_ = {.rotary_dim = 24, .base = 10000.0, .scale = 1.0, .pair_divisors = {}};
  PageLayout layout_;
  WindowShape shape_;
  const Policy* policy_;
  const Kernels& kernels_;
  RotaryTable table_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Window> window_;
  NaiveWindow naive_;
  std::mt19937_64 random_;
  Arena arena_;
  size_t forked_pages_ = 0;
  int64_t recalled_ = 0;
};

// Returns how many spans were called back.
int64_t RunTwins(const WindowShape& shape, const char* policy, DType type, int64_t most_tokens) {
  const uint64_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "MOORING_TEST_SEED=" << seed << " window " << shape.capacity
                                  << " anchors " << shape.anchors << " by page "
                                  << shape.expire_by_page << " " << policy);
  Twins twins(shape, *FindPolicy(policy), type, seed);
  std::mt19937_64 random(seed + 1);
  const auto below = [&random](int limit) {
    return static_cast<int>(random() % static_cast<uint64_t>(limit));
  };
  for (int i = 0; i < 60 && twins.length() + kMaxRows < most_tokens; ++i) {
    switch (below(shape.recalled > 0 ? 12 : 8)) {
      case 8:
      case 9:
      case 10:
      case 11:
        if (twins.length() > shape.anchors) {
          std::vector<OfferedSpan> offered(static_cast<size_t>(below(5)));
          for (OfferedSpan& span : offered) {
            const int from = below(static_cast<int>(twins.length()));
            const int most = std::min(shape.recalled, static_cast<int>(twins.length()) - from);
            span = {{{from}, {from + 1 + below(most)}}, below(3) == 0};
          }
          twins.StartMessage(offered);
        }
        break;
      case 0:
        twins.Rewind(below(kRewindSlots + 1));
        break;
      case 1:
        twins.Fork();
        break;
      case 2:
        twins.Snapshot();
        break;
      default:
        twins.Append(1 + below(below(2) == 0 ? 3 : kMaxRows));
    }
    if (testing::Test::HasFatalFailure()) break;
  }
  return twins.recalled();
}

TEST(MemoryOracle, Sinks) {
  for (const bool by_page : {false, true}) {
    for (const int anchors : {0, 1, 4, 16, 21}) {
      for (const int recent : {1, 15, 16, 40, 133}) {
        RunTwins({.capacity = anchors + recent + 1, .anchors = anchors, .expire_by_page = by_page},
                 "sinks", DType::kF32, 1 << 20);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(MemoryOracle, SinksInHalf) {
  RunTwins({.capacity = 100, .anchors = 4}, "sinks", DType::kF16, 1 << 20);
}

TEST(MemoryOracle, Recall) {
  int64_t recalled = 0;
  for (const bool by_page : {false, true}) {
    for (const int anchors : {0, 4, 16, 32}) {
      for (const int recent : {40, 133, 260}) {
        for (int i = 0; i < 2; ++i) {
          recalled += RunTwins({.capacity = anchors + recent + 1,
                                .anchors = anchors,
                                .expire_by_page = by_page,
                                .recalled = recent / 3},
                               "recall", DType::kF32, 1 << 20);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
  EXPECT_GT(recalled, 100);
}

// Messages of one token each close a page each: more than may stay short.
TEST(MemoryOracle, RecallWithManyShortMessages) {
  const WindowShape shape = {
      .capacity = 256, .anchors = 4, .expire_by_page = false, .recalled = 60};
  Twins twins(shape, *FindPolicy("recall"), DType::kF32, TestSeed());
  twins.Append(40);
  for (int i = 0; i < 3 * kMaxShortPages; ++i) {
    const int from = 5 + 7 * (i % 5);
    twins.StartMessage(std::vector<OfferedSpan>{{{{from}, {from + 3}}, false}});
    twins.Append(1 + i % 4);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(MemoryOracle, Dense) {
  for (const int anchors : {0, 4, 33}) {
    RunTwins({.capacity = 400, .anchors = anchors}, "dense", DType::kF32, 400);
  }
}

}  // namespace
}  // namespace mooring::test
