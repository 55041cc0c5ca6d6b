// Twin tests of the functions over one row.
#include <cmath>
#include <cstring>

#include "kernels/kernels_testing.h"

namespace mooring {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

class RowsTest : public KernelsTest {};
MOORING_FOR_EVERY_TABLE(RowsTest);

// A sum of `count` squares is off by at most `count` roundings in either table; a square root
// halves that.
TEST_P(RowsTest, RmsNorm) {
  for (const int64_t count : Counts(1)) {
    const int64_t offset = count % 5;
    Buffer<float> x = RandomFloats(random(), count, offset, 3.0F);
    const Buffer<float> weight = RandomFloats(random(), count, (count + 2) % 3);
    Buffer<float> expected(count);
    ref::RmsNorm(x.data(), weight.data(), 1e-5F, count, expected.data());
    Buffer<float> out(count, count % 3);
    kernels().RmsNorm(x.data(), weight.data(), 1e-5F, count, out.data());
    kernels().RmsNorm(x.data(), weight.data(), 1e-5F, count, x.data());
    const double relative = static_cast<double>(count + 8) * kFloatRounding;
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_NEAR(out[i], expected[i], relative * std::abs(expected[i])) << count << " " << i;
      ASSERT_TRUE(SameBits(out[i], x[i])) << "in place: " << count << " " << i;
    }
  }
}

TEST_P(RowsTest, RmsNormOfZeros) {
  Buffer<float> x(7);
  Buffer<float> weight(7);
  weight.Fill(1.0F);
  kernels().RmsNorm(x.data(), weight.data(), 1e-6F, 7, x.data());
  for (int64_t i = 0; i < 7; ++i) EXPECT_EQ(x[i], 0.0F);
}

// Against doubles: the mean and the sum of squares are each off by at most `count` roundings of
// their items, and so are differences to the mean, in units of the largest |x|; the variance of
// these inputs is far from zero.
TEST_P(RowsTest, LayerNorm) {
  for (const int64_t count : Counts(2)) {
    Buffer<float> x = RandomFloats(random(), count, count % 5, 3.0F);
    const Buffer<float> weight = RandomFloats(random(), count, (count + 2) % 3);
    const Buffer<float> bias = RandomFloats(random(), count, (count + 1) % 4);
    x[0] = 3.0F;
    x[1] = -3.0F;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += double{x[i]};
    const double mean = sum / static_cast<double>(count);
    double squares = 0;
    for (int64_t i = 0; i < count; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(count) + 1e-5);
    Buffer<float> out(count, count % 3);
    kernels().LayerNorm(x.data(), weight.data(), bias.data(), 1e-5F, count, out.data());
    const Buffer<float> before = x;
    kernels().LayerNorm(x.data(), weight.data(), bias.data(), 1e-5F, count, x.data());
    const double relative = static_cast<double>(count + 8) * kFloatRounding;
    for (int64_t i = 0; i < count; ++i) {
      const double expected = (before[i] - mean) * inverse * weight[i] + bias[i];
      const double size = 3.0 * inverse * std::abs(weight[i]) + std::abs(expected);
      ASSERT_NEAR(out[i], expected, relative * size) << count << " " << i;
      ASSERT_TRUE(SameBits(out[i], x[i])) << "in place: " << count << " " << i;
    }
  }
}

TEST_P(RowsTest, LayerNormOfEqualsIsTheBias) {
  Buffer<float> x(19);
  Buffer<float> ones(19);
  x.Fill(0.5F);
  ones.Fill(1.0F);
  const Buffer<float> bias = RandomFloats(random(), 19);
  kernels().LayerNorm(x.data(), ones.data(), bias.data(), 1e-12F, 19, x.data());
  for (int64_t i = 0; i < 19; ++i) EXPECT_EQ(x[i], bias[i]);
}

// The integral is within 8e-8 of its own and three roundings more; so is the product, times |x|.
TEST_P(RowsTest, Gelu) {
  constexpr double kIntegral = 8e-8 + 4 * kFloatRounding;
  for (const int64_t count : Counts(0)) {
    Buffer<float> x = RandomFloats(random(), count, count % 4, 8.0F);
    Buffer<float> out(count, count % 5);
    kernels().Gelu(x.data(), count, out.data());
    const Buffer<float> before = x;
    kernels().Gelu(x.data(), count, x.data());
    for (int64_t i = 0; i < count; ++i) {
      const double v = before[i];
      const double expected = 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      ASSERT_NEAR(out[i], expected, kIntegral * std::abs(v)) << count << " " << v;
      ASSERT_TRUE(SameBits(out[i], x[i])) << "in place: " << count;
    }
  }
  float extremes[5] = {-1000.0F, 1000.0F, 0.0F, -0.0F, kNaN};
  kernels().Gelu(extremes, 5, extremes);
  EXPECT_EQ(extremes[0], 0.0F);
  EXPECT_EQ(extremes[1], 1000.0F);
  EXPECT_EQ(extremes[2], 0.0F);
  EXPECT_EQ(extremes[3], 0.0F);
  EXPECT_TRUE(std::isnan(extremes[4]));
}

// Every exponential is within 2e-7 of its own plus the rounding of the difference to the largest
// (at most 40 here); their sum has at most `count` roundings.
TEST_P(RowsTest, Softmax) {
  for (const int64_t count : Counts(1)) {
    Buffer<float> x = RandomFloats(random(), count, count % 5, 20.0F);
    const Buffer<float> before = x;
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(double{x[i]});
    kernels().Softmax(count, x.data());
    const double relative = 4e-7 + static_cast<double>(count + 80) * kFloatRounding;
    for (int64_t i = 0; i < count; ++i) {
      const double expected = std::exp(double{before[i]}) / sum;
      ASSERT_NEAR(x[i], expected, relative * expected + 1e-38) << count << " " << i;
    }
  }
}

TEST_P(RowsTest, AddIsExact) {
  for (const int64_t count : Counts(0)) {
    Buffer<float> x = RandomFloats(random(), count, count % 4);
    const Buffer<float> y = RandomFloats(random(), count, count % 3);
    const Buffer<float> before = x;
    kernels().Add(y.data(), count, x.data());
    for (int64_t i = 0; i < count; ++i) ASSERT_TRUE(SameBits(x[i], before[i] + y[i])) << count;
  }
}

// exp may be off by 2e-7; the other four operations round once each.
TEST_P(RowsTest, SwiGlu) {
  constexpr double kRelative = 2e-7 + 4 * kFloatRounding;
  for (const int64_t count : Counts(0)) {
    Buffer<float> gate = RandomFloats(random(), count, count % 4, 20.0F);
    const Buffer<float> up = RandomFloats(random(), count, count % 3);
    Buffer<float> out(count, count % 5);
    kernels().SwiGlu(gate.data(), up.data(), count, out.data());
    const Buffer<float> before = gate;
    kernels().SwiGlu(gate.data(), up.data(), count, gate.data());
    for (int64_t i = 0; i < count; ++i) {
      const double g = before[i];
      const double expected = g / (1.0 + std::exp(-g)) * static_cast<double>(up[i]);
      ASSERT_NEAR(out[i], expected, kRelative * std::abs(expected)) << count << " " << g;
      ASSERT_TRUE(SameBits(out[i], gate[i])) << "in place: " << count;
    }
  }
}

TEST_P(RowsTest, SwiGluOverTheWholeRange) {
  Buffer<float> gate(2001);
  Buffer<float> up(2001);
  up.Fill(1.0F);
  for (int64_t i = 0; i < 2001; ++i) gate[i] = static_cast<float>(i - 1000) * 0.0853F;
  Buffer<float> out(2001);
  kernels().SwiGlu(gate.data(), up.data(), 2001, out.data());
  for (int64_t i = 0; i < 2001; ++i) {
    const double g = gate[i];
    const double expected = g / (1.0 + std::exp(-g));
    ASSERT_NEAR(out[i], expected, 4.5e-7 * std::abs(expected)) << g;
  }
  float extremes[4] = {-1000.0F, 1000.0F, 0.0F, kNaN};
  float ones[4] = {1.0F, 1.0F, 1.0F, 1.0F};
  kernels().SwiGlu(extremes, ones, 4, extremes);
  EXPECT_NEAR(extremes[0], 0.0F, 1e-30F);
  EXPECT_EQ(extremes[1], 1000.0F);
  EXPECT_EQ(extremes[2], 0.0F);
  EXPECT_TRUE(std::isnan(extremes[3]));
}

template <typename Block>
void ExpectQuantized(const Buffer<float>& x, void (*quantize)(const float*, int64_t, Block*),
                     void (*oracle)(const float*, int64_t, Block*)) {
  const int64_t count = x.count();
  std::vector<Block> expected(static_cast<size_t>(count / kBlockItems));
  std::vector<Block> blocks(expected.size());
  oracle(x.data(), count, expected.data());
  quantize(x.data(), count, blocks.data());
  for (size_t b = 0; b < blocks.size(); ++b) {
    ASSERT_TRUE(SameBits(blocks[b].scale, expected[b].scale)) << b;
    ASSERT_TRUE(SameBits(blocks[b].weighted_sum, expected[b].weighted_sum)) << b;
    ASSERT_EQ(std::memcmp(blocks[b].quant, expected[b].quant, sizeof(blocks[b].quant)), 0) << b;
  }
  for (int64_t i = 0; i < count; ++i) {
    const Block& block = blocks[static_cast<size_t>(i / kBlockItems)];
    // Half a step, and a little for the two roundings on the way.
    const double item = double{block.scale} * block.quant[i % kBlockItems];
    ASSERT_NEAR(item, x[i], 0.5 * double{block.scale} + 2e-7 * std::abs(x[i]) + 1e-30) << i;
  }
  if (blocks.size() > 2) {
    EXPECT_EQ(blocks[0].scale, 0.0F);
    EXPECT_EQ(blocks[0].weighted_sum, 0.0F);
    EXPECT_EQ(blocks[1].scale, 0.0F);
  }
}

TEST_P(RowsTest, QuantizingHasTheBitsOfTheReference) {
  for (int64_t block_count = 0; block_count <= 19; ++block_count) {
    const int64_t count = block_count * kBlockItems;
    Buffer<float> x = RandomFloats(random(), count, block_count % 5, 4.0F);
    for (const float most : {Int8Block::kMost, Int16Block::kMost}) {
      if (block_count > 2) {
        for (int64_t i = 0; i < kBlockItems; ++i) x[i] = 0.0F;                   // zeros
        for (int64_t i = kBlockItems; i < 2 * kBlockItems; ++i) x[i] *= 1e-39F;  // subnormal
        for (int64_t i = 2 * kBlockItems; i < 3 * kBlockItems; ++i) {            // ties
          x[i] = static_cast<float>(random().Below(255) - 127) * 0.5F;
        }
        x[2 * kBlockItems] = most;
      }
      ExpectQuantized(x, kernels().QuantizeInt8, &ref::QuantizeInt8);
      ExpectQuantized(x, kernels().QuantizeInt16, &ref::QuantizeInt16);
    }
  }
}

TEST_P(RowsTest, RoundRowHasTheBitsOfTheReference) {
  const std::vector<float> special = {0.0F,     -0.0F,    1.0F,     kInf,      -kInf,     65504.0F,
                                      65520.0F, 65519.9F, 1e-8F,    5.97e-8F,  2.98e-8F,  6.1e-5F,
                                      6.0e-5F,  1e-40F,   3.4e38F,  -3.4e38F,  2049.0F,   2051.0F,
                                      257.0F,   259.0F,   1.00391F, 0x1.01p0F, 0x1.03p0F, 1e5F};
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (const int64_t count : Counts(0)) {
      Buffer<float> x = RandomFloats(random(), count, count % 5, 100.0F);
      for (int64_t i = 0; i < count; i += 2) {
        x[i] = special[static_cast<size_t>(random().Below(static_cast<int>(special.size())))];
      }
      Buffer<float> expected(count);
      ref::RoundRow(dtype, x.data(), count, expected.data());
      Buffer<float> out(count, count % 3);
      kernels().RoundRow(dtype, x.data(), count, out.data());
      kernels().RoundRow(dtype, x.data(), count, x.data());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(SameBits(out[i], expected[i])) << i << " of " << count << ": " << out[i];
        ASSERT_TRUE(SameBits(x[i], expected[i])) << "in place";
      }
    }
    float nan = kNaN;
    kernels().RoundRow(dtype, &nan, 1, &nan);
    EXPECT_TRUE(std::isnan(nan));
  }
}

TEST_P(RowsTest, ArgMaxTakesTheFirstOfTheLargest) {
  for (const int64_t count : Counts(1)) {
    Buffer<float> x = RandomFloats(random(), count, count % 5);
    ASSERT_EQ(kernels().ArgMax(x.data(), count), ref::ArgMax(x.data(), count));
    // Few different values: many ties. Then NaN among them.
    for (int64_t i = 0; i < count; ++i) x[i] = static_cast<float>(random().Below(3)) - 2.0F;
    ASSERT_EQ(kernels().ArgMax(x.data(), count), ref::ArgMax(x.data(), count));
    for (int64_t i = 0; i < count; ++i) {
      if (random().Below(3) == 0) x[i] = random().Below(2) == 0 ? kNaN : -kInf;
    }
    ASSERT_EQ(kernels().ArgMax(x.data(), count), ref::ArgMax(x.data(), count));
    // Every place can win.
    for (int64_t i = 0; i < count; ++i) x[i] = -5.0F;
    const int64_t place = random().Below(static_cast<int>(count));
    x[place] = -4.0F;
    ASSERT_EQ(kernels().ArgMax(x.data(), count), place);
  }
  const float nan_first[3] = {kNaN, -kInf, kNaN};
  EXPECT_EQ(kernels().ArgMax(nan_first, 3), 1);
  const float all_nan[2] = {kNaN, kNaN};
  EXPECT_EQ(kernels().ArgMax(all_nan, 2), 0);
  const float zeros[3] = {-1.0F, -0.0F, 0.0F};
  EXPECT_EQ(kernels().ArgMax(zeros, 3), 1);
}

// Every exponential is within 2e-7 of its own, plus the rounding of the difference to the largest
// (at most 40 here).
TEST_P(RowsTest, LogSumExp) {
  for (const int64_t count : Counts(1)) {
    const Buffer<float> x = RandomFloats(random(), count, count % 5, 20.0F);
    double largest = x[0];
    for (int64_t i = 0; i < count; ++i) largest = std::max(largest, double{x[i]});
    double sum = 0.0;
    for (int64_t i = 0; i < count; ++i) sum += std::exp(double{x[i]} - largest);
    const double expected = largest + std::log(sum);
    ASSERT_NEAR(kernels().LogSumExp(x.data(), count), expected, 2e-7 + 40 * kFloatRounding);
  }
}

}  // namespace
}  // namespace mooring
