// Size arithmetic on numbers that strangers wrote.
//
// Every product and sum of counts, offsets and lengths that come from a file or a request goes
// through CheckedSize: once a step overflows (or goes below zero), the value is poisoned and stays
// so, and the reader asks once, at the end, whether the result can be trusted.
//
// Thread rule: plain values.
#ifndef MOORING_BASE_CHECKED_H_
#define MOORING_BASE_CHECKED_H_

#include <cstdint>
#include <optional>

namespace mooring {

class CheckedSize {
 public:
  constexpr CheckedSize(uint64_t value) : value_(value) {}  // NOLINT: implicit

  constexpr bool valid() const { return valid_; }
  // The number, or nothing after an overflow.
  constexpr std::optional<uint64_t> value() const {
    if (!valid_) return std::nullopt;
    return value_;
  }
  // True when the number is known and at most `limit`.
  constexpr bool AtMost(uint64_t limit) const { return valid_ && value_ <= limit; }

  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) {
    CheckedSize r(0);
    r.valid_ = !__builtin_add_overflow(a.value_, b.value_, &r.value_) && a.valid_ && b.valid_;
    return r;
  }
  friend constexpr CheckedSize operator-(CheckedSize a, CheckedSize b) {
    CheckedSize r(0);
    r.valid_ = !__builtin_sub_overflow(a.value_, b.value_, &r.value_) && a.valid_ && b.valid_;
    return r;
  }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) {
    CheckedSize r(0);
    r.valid_ = !__builtin_mul_overflow(a.value_, b.value_, &r.value_) && a.valid_ && b.valid_;
    return r;
  }
  // Rounds up to a multiple of `alignment`, which must be a power of two.
  constexpr CheckedSize AlignUp(uint64_t alignment) const {
    CheckedSize r = *this + CheckedSize(alignment - 1);
    r.value_ &= ~(alignment - 1);
    return r;
  }

 private:
  uint64_t value_;
  bool valid_ = true;
};

}  // namespace mooring

#endif  // MOORING_BASE_CHECKED_H_
