// Functions over the logits of one row.
#ifndef MOORING_KERNELS_CPU_LOGITS_INL_H_
#define MOORING_KERNELS_CPU_LOGITS_INL_H_

#include "kernels/cpu/math-inl.h"
#include "kernels/kernels.h"

namespace mooring::MOORING_ISA {
namespace {  // NOLINT(google-build-namespaces): a copy per instruction set

// The last, partial vector of x, filled up with -infinity.
[[gnu::always_inline]] inline Vec::F LoadTail(const float* x, int rest) {
  return Vec::Select(Vec::LaneRange(0, rest - 1), Vec::Load(x, rest), Vec::Set(-kInfinity));
}

// NaN loses every comparison; -infinity when there is nothing else.
float LargestOf(const float* x, int64_t count) {
  Vec::F most[2] = {Vec::Set(-kInfinity), Vec::Set(-kInfinity)};
  int64_t i = 0;
  for (; i + 2 * Vec::kLanes <= count; i += 2 * Vec::kLanes) {
    most[0] = Vec::Max(Vec::Load(x + i), most[0]);
    most[1] = Vec::Max(Vec::Load(x + i + Vec::kLanes), most[1]);
  }
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) most[0] = Vec::Max(Vec::Load(x + i), most[0]);
  if (i < count) most[1] = Vec::Max(LoadTail(x + i, static_cast<int>(count - i)), most[1]);
  return Vec::Largest(Vec::Max(most[0], most[1]));
}

int64_t ArgMax(const float* x, int64_t count) {
  const float largest = LargestOf(x, count);
  const Vec::F wanted = Vec::Set(largest);
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    const uint32_t equal = Vec::EqualBits(Vec::Load(x + i), wanted);
    if (equal != 0) return i + __builtin_ctz(equal);
  }
  for (; i < count; ++i) {
    if (x[i] == largest) return i;
  }
  return 0;  // all NaN
}

// Exponentials in float, relative to the largest, and their sum in double: within 3e-7.
double LogSumExp(const float* x, int64_t count) {
  const float largest = LargestOf(x, count);
  const Vec::F shift = Vec::Set(largest);
  double sum = 0.0;
  int64_t i = 0;
  for (; i + Vec::kLanes <= count; i += Vec::kLanes) {
    sum = Vec::AddLanes(sum, Exp(Vec::Sub(Vec::Load(x + i), shift)));
  }
  if (i < count) {
    const Vec::F tail = LoadTail(x + i, static_cast<int>(count - i));
    sum = Vec::AddLanes(sum, Exp(Vec::Sub(tail, shift)));
  }
  return static_cast<double>(largest) + __builtin_log(sum);
}

void Softmax(int64_t count, float* x) {
  const Vec::F shift = Vec::Set(LargestOf(x, count));
  const int64_t whole = count / Vec::kLanes * Vec::kLanes;
  const int rest = static_cast<int>(count - whole);
  Vec::F sum = Vec::Zero();
  for (int64_t i = 0; i < whole; i += Vec::kLanes) {
    const Vec::F e = Exp(Vec::Sub(Vec::Load(x + i), shift));
    Vec::Store(x + i, e);
    sum = Vec::Add(sum, e);
  }
  if (rest > 0) {
    const Vec::F e = Exp(Vec::Sub(LoadTail(x + whole, rest), shift));
    Vec::Store(x + whole, e, rest);
    sum = Vec::Add(sum, e);
  }
  const Vec::F inverse = Vec::Set(1.0F / Vec::Sum(sum));
  for (int64_t i = 0; i < whole; i += Vec::kLanes) {
    Vec::Store(x + i, Vec::Mul(Vec::Load(x + i), inverse));
  }
  if (rest > 0) Vec::Store(x + whole, Vec::Mul(Vec::Load(x + whole, rest), inverse), rest);
}

}  // namespace
}  // namespace mooring::MOORING_ISA

#endif  // MOORING_KERNELS_CPU_LOGITS_INL_H_
