// The window and its pages against a naive twin that keeps every key unrotated in double, and
// recomputes attention from the rule in docs/memory.md. Random appends in chunks, rewinds, forks
// and ways through a snapshot; compared after each.

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
      : shape_(shape), rotary_(rotary) {}

  std::vector<Token>& log() { return log_; }

  std::vector<double> Attend(int64_t t, int head, double scale) const {
    std::vector<double> scores;
    std::vector<int64_t> seen;
    double largest = -1e300;
    for (int64_t j = 0; j <= t; ++j) {
      if (!Visible(t, j)) continue;
      const int64_t distance =
          j >= shape_.anchors ? t - j : std::min<int64_t>(t, shape_.anchors + shape_.recent()) - j;
      scores.push_back(scale * Score(t, j, head, distance));
      seen.push_back(j);
      largest = std::max(largest, scores.back());
    }
    std::vector<double> out(kDim, 0.0);
    double sum = 0;
    for (size_t i = 0; i < seen.size(); ++i) {
      const double weight = std::exp(scores[i] - largest);
      sum += weight;
      for (int d = 0; d < kDim; ++d) {
        out[static_cast<size_t>(d)] +=
            weight *
            static_cast<double>(log_[static_cast<size_t>(seen[i])]
                                    .value[static_cast<size_t>(head)][static_cast<size_t>(d)]);
      }
    }
    for (double& item : out) item /= sum;
    return out;
  }

 private:
  bool Visible(int64_t t, int64_t j) const {
    if (j < shape_.anchors) return true;
    int64_t first = t - shape_.recent();
    if (shape_.expire_by_page && first > shape_.anchors) {
      const int64_t behind = first - shape_.anchors;
      first = shape_.anchors + (behind + kPageSlots - 1) / kPageSlots * kPageSlots;
      first = std::min(first, t);
    }
    return first <= j;
  }
  double Score(int64_t t, int64_t j, int head, int64_t distance) const {
    const auto& q = log_[static_cast<size_t>(t)].query[static_cast<size_t>(head)];
    const auto& k = log_[static_cast<size_t>(j)].key[static_cast<size_t>(head)];
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
      naive_.log().push_back(token);
      for (int head = 0; head < kHeads; ++head) {
        const auto pages = view.head(0, head).pages;
        const RowPlace& place = places[static_cast<size_t>(row)];
        kernels_.Append(layout_, &table_, place.slot, token.key[static_cast<size_t>(head)].data(),
                        token.value[static_cast<size_t>(head)].data(),
                        pages[pages.size() - static_cast<size_t>(place.pages_from_end)].data);
      }
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

  void Rewind(int count) {
    count = static_cast<int>(std::min<int64_t>(count, window_->RewindBound()));
    window_->Rewind(count);
    naive_.log().resize(naive_.log().size() - static_cast<size_t>(count));
  }

  // Goes on in a fork, after the original has written over its own tail.
  void Fork() {
    Window fork = window_->Fork();
    const std::vector<Token> log = naive_.log();
    forked_pages_ = pool_->page_count();  // not counted while both live
    std::vector<RowPlace> places(1);
    ASSERT_TRUE(window_->Extend(1, places));
    const KvView view = window_->View();
    const Token garbage = Draw();
    for (int head = 0; head < kHeads; ++head) {
      const auto pages = view.head(0, head).pages;
      kernels_.Append(layout_, &table_, places[0].slot, garbage.key[0].data(),
                      garbage.value[0].data(),
                      pages[pages.size() - static_cast<size_t>(places[0].pages_from_end)].data);
    }
    window_->Commit();
    window_ = std::make_unique<Window>(std::move(fork));
    forked_pages_ = 0;
    naive_.log() = log;
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
};

void RunTwins(const WindowShape& shape, const char* policy, DType type, int64_t most_tokens) {
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
    switch (below(8)) {
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
    if (testing::Test::HasFatalFailure()) return;
  }
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

TEST(MemoryOracle, Dense) {
  for (const int anchors : {0, 4, 33}) {
    RunTwins({.capacity = 400, .anchors = anchors}, "dense", DType::kF32, 400);
  }
}

}  // namespace
}  // namespace mooring::test
