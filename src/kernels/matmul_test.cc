// Twin tests of the weight formats: dequantising, and matmuls in floats and in integers.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/kernels_testing.h"

namespace mooring {
namespace {

class MatmulTest : public KernelsTest {};
MOORING_FOR_EVERY_TABLE(MatmulTest);

std::vector<DType> AllFormats() {
  return {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};
}

int64_t RowBytes(DType dtype, int64_t in_dim) {
  return in_dim / InfoOf(dtype).block_items * InfoOf(dtype).block_bytes;
}

void WriteHalf(std::byte* p, float value) {
  const uint16_t half = HalfFromFloat(value);
  std::memcpy(p, &half, 2);
}

// Random items, and scales of about 1 / 16 for the block formats. Starts at an odd address.
Buffer<std::byte> RandomWeights(Random& random, DType dtype, int64_t rows, int64_t in_dim) {
  Buffer<std::byte> weights(rows * RowBytes(dtype, in_dim), 1);
  std::byte* p = weights.data();
  const int64_t block_count = rows * in_dim / InfoOf(dtype).block_items;
  for (int64_t b = 0; b < block_count; ++b, p += InfoOf(dtype).block_bytes) {
    const float value = random.Uniform(-1.0F, 1.0F);
    if (dtype == DType::kF32) {
      std::memcpy(p, &value, 4);
    } else if (dtype == DType::kF16) {
      WriteHalf(p, value);
    } else if (dtype == DType::kBF16) {
      const uint16_t item = BFloatFromFloat(value);
      std::memcpy(p, &item, 2);
    } else {
      for (int i = 0; i < InfoOf(dtype).block_bytes; ++i) p[i] = std::byte(random.Bits() & 255U);
      WriteHalf(p, value / 16.0F);
      if (dtype == DType::kQ4_1) WriteHalf(p + 2, random.Uniform(-0.5F, 0.5F));
    }
  }
  return weights;
}

// One matmul's operands, of which the function of `arithmetic` reads its own.
struct Problem {
  DType dtype;
  Arithmetic arithmetic;
  int64_t in_dim;
  int64_t out_dim;
  int64_t row_count;
  Buffer<std::byte> weights;
  Buffer<float> input;
  std::vector<Int8Block> int8;
  std::vector<Int16Block> int16;

  Problem(Random& random, DType type, Arithmetic how, int64_t in, int64_t out, int64_t rows)
      : dtype(type),
        arithmetic(how),
        in_dim(in),
        out_dim(out),
        row_count(rows),
        weights(RandomWeights(random, type, out, in)),
        input(RandomFloats(random, rows * in, 3)) {
    if (InfoOf(type).block_items == 1) return;
    int8.resize(static_cast<size_t>(rows * in / kBlockItems));
    int16.resize(int8.size());
    ref::QuantizeInt8(input.data(), rows * in, int8.data());
    ref::QuantizeInt16(input.data(), rows * in, int16.data());
  }

  // Rows [row, row + rows) into `out`, [rows, out_dim].
  MatmulTask Task(int64_t row, int64_t rows, float* out) const {
    MatmulTask task;
    task.weights = weights.data();
    task.weight_row_bytes = RowBytes(dtype, in_dim);
    task.in_dim = in_dim;
    task.row_count = rows;
    task.input = input.data() + row * in_dim;
    task.int8 = int8.data() + row * in_dim / kBlockItems;
    task.int16 = int16.data() + row * in_dim / kBlockItems;
    task.out = out;
    task.out_stride = out_dim;
    return task;
  }

  // The activation that the function multiplies.
  double Activation(int64_t row, int64_t k) const {
    const int64_t i = row * in_dim + k;
    const auto block = static_cast<size_t>(i / kBlockItems);
    const auto item = static_cast<size_t>(i % kBlockItems);
    if (arithmetic == Arithmetic::kInt8) return double{int8[block].scale} * int8[block].quant[item];
    if (arithmetic == Arithmetic::kInt16) {
      return double{int16[block].scale} * int16[block].quant[item];
    }
    return input[i];
  }

  // For every (row, output), the sum of the sizes of its terms. For integer products a term is an
  // item times an item, since a vector's lanes add them up in parts.
  double TermSize(int64_t row, int64_t n) const {
    Buffer<float> items(in_dim);
    const std::byte* weight_row = weights.data() + n * RowBytes(dtype, in_dim);
    const Kernels& oracle = **SelectKernels("ref");
    oracle.formats[static_cast<size_t>(dtype)].dequantize(weight_row, in_dim, items.data());
    double size = 0.0;
    for (int64_t k = 0; k < in_dim; ++k) {
      double weight = std::abs(double{items[k]});
      if (arithmetic != Arithmetic::kF32 && dtype == DType::kQ4_1) {
        // The two parts of an item may cancel.
        const std::byte* block = weight_row + k / kBlockItems * InfoOf(dtype).block_bytes;
        weight += 2 * std::abs(double{ref::UnpackQ4_1(block).minimum});
      }
      size += std::abs(Activation(row, k)) * weight;
    }
    return size;
  }
};

constexpr Arithmetic kIntegers[] = {Arithmetic::kInt8, Arithmetic::kInt16};
constexpr Arithmetic kEveryArithmetic[] = {Arithmetic::kF32, Arithmetic::kInt8, Arithmetic::kInt16};

std::string_view NameOf(Arithmetic arithmetic) {
  if (arithmetic == Arithmetic::kInt8) return "int8";
  return arithmetic == Arithmetic::kInt16 ? "int16" : "float";
}

// Null where the format has no such function.
MatmulFunction FunctionOf(const Kernels& kernels, DType dtype, Arithmetic arithmetic) {
  const FormatKernels& format = kernels.formats[static_cast<size_t>(dtype)];
  if (arithmetic == Arithmetic::kInt8) return format.matmul_int8;
  return arithmetic == Arithmetic::kInt16 ? format.matmul_int16 : format.matmul_float;
}

// A sum of n terms is off by at most n roundings of the sum of their sizes, in either table; the
// integer form rounds about three times per block.
void ExpectTwin(const Kernels& kernels, const Problem& problem) {
  const Arithmetic arithmetic = problem.arithmetic;
  const int64_t size = problem.row_count * problem.out_dim;
  std::vector<float> expected(static_cast<size_t>(size));
  std::vector<float> out(static_cast<size_t>(size));
  const Kernels& oracle = **SelectKernels("ref");
  FunctionOf(oracle, problem.dtype, arithmetic)(problem.Task(0, problem.row_count, expected.data()),
                                                0, problem.out_dim);
  FunctionOf(kernels, problem.dtype, arithmetic)(problem.Task(0, problem.row_count, out.data()), 0,
                                                 problem.out_dim);
  const auto in_dim = static_cast<double>(problem.in_dim);
  const double roundings =
      arithmetic == Arithmetic::kF32 ? 2 * in_dim + 16 : 6 * in_dim / kBlockItems + 16;
  for (int64_t row = 0; row < problem.row_count; ++row) {
    for (int64_t n = 0; n < problem.out_dim; ++n) {
      const auto i = static_cast<size_t>(row * problem.out_dim + n);
      const double tolerance = roundings * kFloatRounding * problem.TermSize(row, n);
      ASSERT_NEAR(out[i], expected[i], tolerance)
          << InfoOf(problem.dtype).name << " " << NameOf(arithmetic) << " in " << problem.in_dim
          << " out " << problem.out_dim << " row " << row << "/" << problem.row_count << " n " << n;
    }
  }
}

// Exact, so equal; the sign of a zero is free.
TEST_P(MatmulTest, DequantizeEqualsTheReference) {
  for (const DType dtype : AllFormats()) {
    const int64_t step = InfoOf(dtype).block_items;
    for (int64_t count = 0; count <= 40 * step; count += step) {
      const Buffer<std::byte> weights = RandomWeights(random(), dtype, 1, count);
      Buffer<float> expected(count);
      Buffer<float> out(count, count % 3);
      const auto format = static_cast<size_t>(dtype);
      (*SelectKernels("ref"))->formats[format].dequantize(weights.data(), count, expected.data());
      kernels().formats[format].dequantize(weights.data(), count, out.data());
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_EQ(out[i], expected[i]) << InfoOf(dtype).name << " " << count;
      }
    }
  }
}

TEST_P(MatmulTest, FloatOfEveryFormatAndRowCount) {
  for (const DType dtype : AllFormats()) {
    for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
      for (const int64_t in_dim : {32, 576}) {
        ExpectTwin(kernels(),
                   Problem(random(), dtype, Arithmetic::kF32, in_dim, 1 + rows % 7, rows));
      }
    }
  }
}

TEST_P(MatmulTest, FloatOfEveryLength) {
  for (const DType dtype : AllFormats()) {
    const int64_t step = InfoOf(dtype).block_items;
    for (int64_t blocks = 1; blocks <= 35; ++blocks) {
      ExpectTwin(kernels(), Problem(random(), dtype, Arithmetic::kF32, blocks * step, 4, 3));
    }
  }
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t in_dim : {96, 100, 767, 768, 769, 1601}) {
      ExpectTwin(kernels(), Problem(random(), dtype, Arithmetic::kF32, in_dim, 5, 5));
    }
  }
}

TEST_P(MatmulTest, IntegerOfEveryFormatAndRowCount) {
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    for (const Arithmetic arithmetic : kIntegers) {
      for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 64}) {
        for (const int64_t in_dim : {32, 576}) {
          ExpectTwin(kernels(), Problem(random(), dtype, arithmetic, in_dim, 1 + rows % 7, rows));
        }
      }
      for (int64_t blocks = 1; blocks <= 35; ++blocks) {
        ExpectTwin(kernels(), Problem(random(), dtype, arithmetic, blocks * kBlockItems, 5, 3));
      }
    }
  }
}

// A row gives the same bits alone, in any group, and however the outputs are cut.
TEST_P(MatmulTest, RowsAloneAndInGroupsAreBitEqual) {
  constexpr int64_t kRows = 71;  // more than a group of the float kernels
  constexpr int64_t kOut = 11;
  for (const DType dtype : AllFormats()) {
    for (const Arithmetic arithmetic : kEveryArithmetic) {
      const MatmulFunction matmul = FunctionOf(kernels(), dtype, arithmetic);
      if (matmul == nullptr) continue;
      const int64_t in_dim = InfoOf(dtype).block_items == 1 ? 805 : 800;
      const Problem problem(random(), dtype, arithmetic, in_dim, kOut, kRows);
      std::vector<float> whole(kRows * kOut);
      matmul(problem.Task(0, kRows, whole.data()), 0, kOut);
      for (const int64_t group : {1, 2, 3, 4, 5, 7, 16, 64}) {
        std::vector<float> parts(kRows * kOut);
        for (int64_t row = 0; row < kRows; row += group) {
          const int64_t rows = std::min(group, kRows - row);
          const int64_t cut = random().Below(kOut + 1);
          const MatmulTask task = problem.Task(row, rows, parts.data() + row * kOut);
          matmul(task, 0, cut);
          matmul(task, cut, kOut);
        }
        ASSERT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0)
            << InfoOf(dtype).name << " " << NameOf(arithmetic) << " group " << group;
      }
    }
  }
}

TEST_P(MatmulTest, WritesOnlyItsOutputs) {
  for (const DType dtype : AllFormats()) {
    for (const Arithmetic arithmetic : kEveryArithmetic) {
      const MatmulFunction matmul = FunctionOf(kernels(), dtype, arithmetic);
      if (matmul == nullptr) continue;
      const Problem problem(random(), dtype, arithmetic, 64, 12, 6);
      std::vector<float> out(6 * 12, 77.0F);
      matmul(problem.Task(0, 6, out.data()), 3, 8);
      matmul(problem.Task(0, 6, out.data()), 9, 9);
      for (size_t i = 0; i < out.size(); ++i) {
        EXPECT_EQ(out[i] == 77.0F, i % 12 < 3 || i % 12 >= 8) << i;
      }
      matmul(problem.Task(0, 0, nullptr), 0, 12);
    }
  }
}

// The largest products there are: nothing may saturate.
template <typename Item>
void ExpectNothingSaturates(const Kernels& kernels, Random& random, Arithmetic arithmetic,
                            std::vector<QuantBlock<Item>> Problem::*input) {
  struct Extreme {
    DType dtype;
    int weight;       // as stored
    int64_t meaning;  // as multiplied
  };
  constexpr int kMost = std::numeric_limits<Item>::max();
  for (const Extreme& e : {Extreme{DType::kQ8_0, 0x80, -128}, Extreme{DType::kQ8_0, 0x7F, 127},
                           Extreme{DType::kQ4_0, 0x00, -8}, Extreme{DType::kQ4_0, 0xFF, 7},
                           Extreme{DType::kQ4_1, 0x00, 0}, Extreme{DType::kQ4_1, 0xFF, 15}}) {
    for (const int item : {-kMost, kMost, 1, 0}) {
      Problem problem(random, e.dtype, arithmetic, 64, 3, 4);
      const int block_bytes = InfoOf(e.dtype).block_bytes;
      for (int64_t i = 0; i < problem.weights.count(); ++i) {
        problem.weights[i] = std::byte(static_cast<unsigned>(e.weight));
      }
      for (int64_t i = 0; i < problem.weights.count(); i += block_bytes) {
        WriteHalf(problem.weights.data() + i, 1.0F);
        if (e.dtype == DType::kQ4_1) WriteHalf(problem.weights.data() + i + 2, -2.0F);
      }
      for (QuantBlock<Item>& block : problem.*input) {
        block.scale = 1.0F;
        block.weighted_sum = 32.0F * static_cast<float>(item);
        std::fill_n(block.quant, kBlockItems, static_cast<Item>(item));
      }
      std::vector<float> out(12);
      FunctionOf(kernels, e.dtype, arithmetic)(problem.Task(0, 4, out.data()), 0, 3);
      const int64_t weight = e.dtype == DType::kQ4_1 ? e.meaning - 2 : e.meaning;
      const auto exact = static_cast<double>(64 * weight * item);
      for (const float value : out) {
        // Sums beyond 2^24 round; a saturated one is off by much more.
        EXPECT_NEAR(value, exact, std::abs(exact) * 1e-6) << InfoOf(e.dtype).name;
      }
    }
  }
}

TEST_P(MatmulTest, IntegerExtremesDoNotSaturate) {
  ExpectNothingSaturates(kernels(), random(), Arithmetic::kInt8, &Problem::int8);
  ExpectNothingSaturates(kernels(), random(), Arithmetic::kInt16, &Problem::int16);
}

}  // namespace
}  // namespace mooring
