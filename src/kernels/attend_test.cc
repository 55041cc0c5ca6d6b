// Twin tests of attention over pages.
#include <array>
#include <cmath>
#include <cstring>

#include "kernels/kernels_testing.h"

namespace mooring {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Sizes of a head and its rotation.
struct Shape {
  DType dtype;
  int head_dim;
  int rotary_dim;
  int group;
};

// Pages of one head in memory aligned like a pool's, with random keys and values in every slot.
struct Scene {
  Shape shape;
  PageLayout layout;
  RotaryTable rotary;
  std::vector<std::byte> memory;
  std::vector<PageRef> pages;
  std::vector<RowPlace> places;
  std::vector<float> queries;

  Scene(Random& random, const Shape& s, int page_count, int row_count)
      : shape(s),
        layout{s.dtype, s.head_dim},
        rotary({.rotary_dim = s.rotary_dim, .pair_divisors = {}}, 1024),
        memory(static_cast<size_t>(page_count) * layout.page_bytes() + 64) {
    auto address = reinterpret_cast<uintptr_t>(memory.data());
    std::byte* data = memory.data() + (64 - address % 64) % 64;
    for (int p = 0; p < page_count; ++p, data += layout.page_bytes()) {
      PageRef page;
      page.data = data;
      page.base = WindowPos{p * kPageSlots};
      page.ordinal = static_cast<uint32_t>(p);
      pages.push_back(page);
      for (int slot = 0; slot < kPageSlots; ++slot) {
        const Buffer<float> key = RandomFloats(random, s.head_dim);
        const Buffer<float> value = RandomFloats(random, s.head_dim);
        ref::Append(layout, &rotary, slot, key.data(), value.data(), data);
      }
    }
    const int64_t query_floats = int64_t{row_count} * s.group * s.head_dim;
    const Buffer<float> random_queries = RandomFloats(random, query_floats, 0, 2.0F);
    queries.assign(random_queries.data(), random_queries.data() + query_floats);
  }

  int64_t state_floats() const { return shape.group * AttentionStateFloats(shape.head_dim); }

  AttendTask Task(int row, int row_count) const {
    AttendTask task;
    task.layout = layout;
    task.pages = pages.data();
    task.rotary = &rotary;
    task.places = places.data() + row;
    task.row_count = row_count;
    task.group = shape.group;
    task.query_stride = int64_t{shape.group} * shape.head_dim;
    task.queries = queries.data() + row * task.query_stride;
    task.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
    return task;
  }

  // The states of rows [row, row + row_count) over pages [begin, end), garbage around the scratch.
  std::vector<float> Attend(const Kernels& kernels, int row, int row_count, int64_t begin,
                            int64_t end) const {
    std::vector<float> states(static_cast<size_t>(row_count * state_floats()), 123.0F);
    const int64_t scratch_floats = AttendScratchFloats(shape.head_dim, shape.group);
    std::vector<float> scratch(static_cast<size_t>(scratch_floats) + 16,
                               std::numeric_limits<float>::quiet_NaN());
    auto address = reinterpret_cast<uintptr_t>(scratch.data());
    kernels.AttendPages(Task(row, row_count), begin, end, states.data(),
                        scratch.data() + (64 - address % 64) % 64 / sizeof(float));
    return states;
  }
  std::vector<float> Attend(const Kernels& kernels) const {
    return Attend(kernels, 0, static_cast<int>(places.size()), 0,
                  static_cast<int64_t>(pages.size()));
  }

  // Makes everything that no row sees NaN.
  void PoisonUnseen() {
    for (const PageRef& page : pages) {
      for (int slot = 0; slot < kPageSlots; ++slot) {
        bool seen = false;
        for (const RowPlace& place : places) {
          const SlotRange slots = VisibleSlots(page, place);
          seen = seen || (slot >= slots.first && slot <= slots.last);
        }
        if (!seen) PoisonSlot(page.data, slot);
      }
    }
  }
  void PoisonSlot(std::byte* page, int slot) const {
    const size_t bytes = layout.item_bytes();
    const auto dim = static_cast<size_t>(shape.head_dim);
    for (size_t d = 0; d < dim; ++d) {
      std::memset(page + (d * kPageSlots + static_cast<size_t>(slot)) * bytes, 0xFF, bytes);
    }
    std::memset(page + layout.key_bytes() + static_cast<size_t>(slot) * dim * bytes, 0xFF,
                dim * bytes);
    for (std::byte* items : {page, page + layout.key_bytes()}) {
      for (int b = 0; b < layout.scale_blocks(); ++b) {
        std::memset(items + layout.scales_offset() + 2 * (b * kPageSlots + slot), 0xFF, 2);
      }
    }
  }
};

RowPlace PlaceAt(int query, int first_visible = 0) {
  RowPlace place;
  place.query = WindowPos{query};
  place.first_visible = WindowPos{first_visible};
  return place;
}

// Everything a page can be: an anchor page that is short and caps the query, pages that aged out
// wholly and in part, whole ones, the rows' own page and one still to come.
Scene EveryKindOfPage(Random& random, const Shape& shape, int row_count) {
  Scene scene(random, shape, 7, row_count);
  scene.pages[0].used = 5;
  scene.pages[0].ages = false;
  scene.pages[0].query_cap = WindowPos{60};
  for (int row = 0; row < row_count; ++row) {
    scene.places.push_back(PlaceAt(5 * kPageSlots + row, 2 * kPageSlots + 3 + row));
  }
  return scene;
}

// Scores are sums of head_dim products of sizes below 2 / sqrt(head_dim), so they are off by at
// most 2 * head_dim^1.5 roundings; weights are off by as much, relatively, and by exp's own 3e-7;
// sums over slots add one rounding per slot. Values are below 1.
double Tolerance(const Shape& shape, size_t page_count) {
  const double score = 2.0 * std::pow(shape.head_dim, 1.5) * kFloatRounding;
  const double slots = static_cast<double>(page_count * kPageSlots) * kFloatRounding;
  return 2 * (score + slots + 3e-7);
}

void ExpectSameAttention(const Scene& scene, const std::vector<float>& states,
                         const std::vector<float>& expected) {
  ASSERT_EQ(states.size(), expected.size());
  const int64_t stride = AttentionStateFloats(scene.shape.head_dim);
  const double tolerance = Tolerance(scene.shape, scene.pages.size());
  for (size_t i = 0; i < states.size(); i += static_cast<size_t>(stride)) {
    const float* state = states.data() + i;
    const float* oracle = expected.data() + i;
    ASSERT_GT(oracle[1], 0.0F);
    ASSERT_NEAR(state[0] + std::log(state[1]), oracle[0] + std::log(oracle[1]), 2 * tolerance);
    for (int d = 0; d < scene.shape.head_dim; ++d) {
      ASSERT_NEAR(state[2 + d] / state[1], oracle[2 + d] / oracle[1], tolerance)
          << "state " << i << " item " << d << " head_dim " << scene.shape.head_dim;
    }
  }
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(SameBits(a[i], b[i])) << i << ": " << a[i] << " and " << b[i];
  }
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const DType dtype : kKeyValueTypes) {
    for (const int group : {1, 2, 3, 4, 5, 8, 9}) shapes.push_back({dtype, 64, 64, group});
    // Heads and rotations that fill no vector, and none at all.
    for (const auto& [head_dim, rotary_dim] : std::vector<std::array<int, 2>>{{2, 2},
                                                                              {6, 4},
                                                                              {30, 30},
                                                                              {32, 32},
                                                                              {64, 32},
                                                                              {64, 0},
                                                                              {80, 80},
                                                                              {96, 48},
                                                                              {100, 50},
                                                                              {128, 128},
                                                                              {256, 250}}) {
      for (const int group : {1, 3}) shapes.push_back({dtype, head_dim, rotary_dim, group});
    }
  }
  return shapes;
}

class AttendTest : public KernelsTest {};
MOORING_FOR_EVERY_TABLE(AttendTest);

TEST_P(AttendTest, MatchesTheReference) {
  for (const Shape& shape : Shapes()) {
    for (const int row_count : {1, 3, 16}) {
      const Scene scene = EveryKindOfPage(random(), shape, row_count);
      ExpectSameAttention(scene, scene.Attend(kernels()), scene.Attend(**SelectKernels("ref")));
      if (HasFatalFailure()) return;
    }
  }
}

// Against the definition: every key and query turned by its own position, in double.
TEST_P(AttendTest, IsOrdinaryRotaryAttention) {
  const Shape shape = {DType::kF32, 64, 64, 2};
  constexpr int kTokens = 55;
  Scene scene(random(), shape, 4, 1);
  scene.places.push_back(PlaceAt(kTokens - 1));
  std::vector<std::vector<double>> keys;
  std::vector<std::vector<double>> values;
  const auto turned = [](const float* head, int position) {
    std::vector<double> out(64);
    for (int i = 0; i < 32; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / 64);
      const double a = head[i];
      const double b = head[i + 32];
      out[static_cast<size_t>(i)] = a * std::cos(angle) - b * std::sin(angle);
      out[static_cast<size_t>(i) + 32] = a * std::sin(angle) + b * std::cos(angle);
    }
    return out;
  };
  for (int t = 0; t < kTokens; ++t) {
    const Buffer<float> key = RandomFloats(random(), 64);
    const Buffer<float> value = RandomFloats(random(), 64);
    kernels().Append(scene.layout, &scene.rotary, t % kPageSlots, key.data(), value.data(),
                     scene.pages[static_cast<size_t>(t / kPageSlots)].data);
    keys.push_back(turned(key.data(), t));
    values.emplace_back(value.data(), value.data() + 64);
  }
  const std::vector<float> states = scene.Attend(kernels());
  for (int g = 0; g < shape.group; ++g) {
    const std::vector<double> query = turned(scene.queries.data() + g * 64, kTokens - 1);
    double sum = 0.0;
    std::vector<double> expected(64);
    for (size_t t = 0; t < kTokens; ++t) {
      double score = 0.0;
      for (size_t d = 0; d < 64; ++d) score += query[d] * keys[t][d];
      const double weight = std::exp(score / 8.0);
      sum += weight;
      for (size_t d = 0; d < 64; ++d) expected[d] += weight * values[t][d];
    }
    std::vector<float> out(64);
    kernels().FinishAttention(states.data() + g * AttentionStateFloats(64), 64, out.data());
    for (size_t d = 0; d < 64; ++d) {
      ASSERT_NEAR(out[d], expected[d] / sum, Tolerance(shape, 4)) << d;
    }
  }
}

TEST_P(AttendTest, RowsAloneAndTogetherAreBitEqual) {
  for (const Shape& shape : Shapes()) {
    const Scene scene = EveryKindOfPage(random(), shape, kAttendRows);
    const std::vector<float> together = scene.Attend(kernels());
    for (const int group : {1, 2, 5}) {
      std::vector<float> apart;
      for (int row = 0; row < kAttendRows; row += group) {
        const int row_count = std::min(group, kAttendRows - row);
        const std::vector<float> states = scene.Attend(kernels(), row, row_count, 0, 7);
        apart.insert(apart.end(), states.begin(), states.end());
      }
      ExpectSameBits(apart, together);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttendTest, UnseenSlotsMayHoldAnything) {
  for (const Shape& shape : Shapes()) {
    for (const int row_count : {1, 4}) {
      Scene scene = EveryKindOfPage(random(), shape, row_count);
      const std::vector<float> clean = scene.Attend(kernels());
      scene.PoisonUnseen();
      ExpectSameBits(scene.Attend(kernels()), clean);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(AttendTest, PagesThatARowDoesNotSeeChangeNoBit) {
  for (const DType dtype : kKeyValueTypes) {
    Scene scene = EveryKindOfPage(random(), {dtype, 64, 64, 3}, 1);
    const std::vector<float> with = scene.Attend(kernels());
    std::erase_if(scene.pages,
                  [&](const PageRef& page) { return VisibleSlots(page, scene.places[0]).empty(); });
    ASSERT_EQ(scene.pages.size(), 5U);
    ExpectSameBits(scene.Attend(kernels()), with);
  }
}

TEST_P(AttendTest, NothingSeenIsTheFreshState) {
  Scene scene = EveryKindOfPage(random(), {DType::kF16, 64, 64, 3}, 2);
  for (const int64_t end : {1, 2}) {  // no page at all, and one that has aged out
    const std::vector<float> states = scene.Attend(kernels(), 0, 2, 1, end);
    for (size_t i = 0; i < states.size(); ++i) {
      ASSERT_EQ(states[i], i % 66 == 0 ? -kInf : 0.0F) << i;
    }
    std::vector<float> out(64, 5.0F);
    kernels().FinishAttention(states.data(), 64, out.data());
    for (const float value : out) ASSERT_EQ(value, 0.0F);
  }
}

// Item d of slot `slot` among the keys (or the values) of a page.
float ItemAt(const PageLayout& layout, const std::byte* page, bool of_keys, int d, int slot) {
  const std::byte* items = of_keys ? page : page + layout.key_bytes();
  const int index = of_keys ? d * kPageSlots + slot : slot * layout.head_dim + d;
  const std::byte* item = items + static_cast<size_t>(index) * layout.item_bytes();
  const auto half_at = [](const std::byte* from) {
    uint16_t half;
    std::memcpy(&half, from, sizeof(half));
    return FloatFromHalf(half);
  };
  if (layout.dtype == DType::kF16) return half_at(item);
  if (layout.dtype == DType::kQ8_0) {
    const int scale = d / kBlockItems * kPageSlots + slot;
    return static_cast<float>(static_cast<int8_t>(*item)) *
           half_at(items + layout.scales_offset() + 2 * static_cast<size_t>(scale));
  }
  float value;
  std::memcpy(&value, item, sizeof(value));
  return value;
}

TEST_P(AttendTest, AppendMatchesTheReferenceAndTouchesOneSlot) {
  for (const Shape& shape : Shapes()) {
    Scene scene(random(), shape, 1, 0);
    std::vector<std::byte> expected(scene.pages[0].data,
                                    scene.pages[0].data + scene.layout.page_bytes());
    const int slot = random().Below(kPageSlots);
    const Buffer<float> key = RandomFloats(random(), shape.head_dim, 1);
    const Buffer<float> value = RandomFloats(random(), shape.head_dim, 3);
    ref::Append(scene.layout, &scene.rotary, slot, key.data(), value.data(), expected.data());
    kernels().Append(scene.layout, &scene.rotary, slot, key.data(), value.data(),
                     scene.pages[0].data);
    // A rotation rounds a few times; the half or byte it becomes may then be the neighbouring one.
    const double relative = shape.dtype == DType::kF32 ? 0.0 : 0x1.0p-10;
    const double step = shape.dtype == DType::kQ8_0 ? 1.5 / 127 : 0.0;
    for (const bool of_keys : {true, false}) {
      for (int d = 0; d < shape.head_dim; ++d) {
        for (int s = 0; s < kPageSlots; ++s) {
          const float a = ItemAt(scene.layout, scene.pages[0].data, of_keys, d, s);
          const float b = ItemAt(scene.layout, expected.data(), of_keys, d, s);
          const bool turned = of_keys && s == slot;
          const double tolerance =
              turned ? relative * std::abs(b) + step + 4 * kFloatRounding : 0.0;
          ASSERT_NEAR(a, b, tolerance) << d << " of " << s << " head_dim " << shape.head_dim;
        }
      }
    }
  }
}

// The largest item of a block is a whole byte, so each is off by half a step at most, and by what
// the scale loses as a half.
TEST_P(AttendTest, BytesKeepValuesToHalfAStep) {
  const Shape shape = {DType::kQ8_0, 80, 80, 1};
  Scene scene(random(), shape, 1, 0);
  const Buffer<float> key = RandomFloats(random(), shape.head_dim);
  Buffer<float> value = RandomFloats(random(), shape.head_dim);
  for (int d = 32; d < 64; ++d) value.data()[d] = 0;  // a block of nothing
  kernels().Append(scene.layout, &scene.rotary, 9, key.data(), value.data(), scene.pages[0].data);
  for (int begin = 0; begin < shape.head_dim; begin += kBlockItems) {
    const int end = std::min(begin + kBlockItems, shape.head_dim);
    float most = 0;
    for (int d = begin; d < end; ++d) most = std::max(most, std::abs(value.data()[d]));
    for (int d = begin; d < end; ++d) {
      const float kept = ItemAt(scene.layout, scene.pages[0].data, false, d, 9);
      ASSERT_NEAR(kept, value.data()[d], most * (0.5 / 127 + 0x1.0p-11)) << d;
    }
  }
}

TEST_P(AttendTest, MergedRunsAreTheWhole) {
  for (const Shape& shape : Shapes()) {
    const Scene scene = EveryKindOfPage(random(), shape, 1);
    const std::vector<float> whole = scene.Attend(kernels());
    std::vector<float> merged = scene.Attend(kernels(), 0, 1, 0, 3);
    const std::vector<float> rest = scene.Attend(kernels(), 0, 1, 3, 7);
    std::vector<float> oracle = merged;
    for (int g = 0; g < shape.group; ++g) {
      const int64_t at = g * AttentionStateFloats(shape.head_dim);
      kernels().MergeAttention(rest.data() + at, shape.head_dim, merged.data() + at);
      ref::MergeAttention(rest.data() + at, shape.head_dim, oracle.data() + at);
    }
    ExpectSameAttention(scene, merged, whole);
    ExpectSameAttention(scene, merged, oracle);
    if (HasFatalFailure()) return;
  }
}

TEST_P(AttendTest, MergingNothingChangesNoBit) {
  const Scene scene = EveryKindOfPage(random(), {DType::kF16, 100, 100, 1}, 1);
  const std::vector<float> some = scene.Attend(kernels());
  const std::vector<float> none = scene.Attend(kernels(), 0, 1, 1, 1);
  std::vector<float> into = some;
  kernels().MergeAttention(none.data(), 100, into.data());
  ExpectSameBits(into, some);
  into = none;
  kernels().MergeAttention(some.data(), 100, into.data());
  ExpectSameBits(into, some);
  into = none;
  kernels().MergeAttention(none.data(), 100, into.data());
  ExpectSameBits(into, none);
}

// Scores far apart: the state is rescaled by page, and what vanishes must vanish cleanly.
TEST_P(AttendTest, LargeScoresStayFinite) {
  Scene scene(random(), {DType::kF32, 64, 64, 3}, 4, 1);
  scene.places.push_back(PlaceAt(63));
  for (float& q : scene.queries) q *= 300.0F;
  const std::vector<float> states = scene.Attend(kernels());
  for (const float x : states) ASSERT_TRUE(std::isfinite(x));
  for (size_t g = 0; g < 3; ++g) {
    EXPECT_GE(states[g * 66 + 1], 1.0F);
    EXPECT_LT(states[g * 66 + 1], 64.0F);
  }
}

}  // namespace
}  // namespace mooring
