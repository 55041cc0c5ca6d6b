#include "serve/owner_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace mooring {
namespace {

constexpr double kSecondsPerMinute = 60.0;

}  // namespace

OwnerLimits::Owner& OwnerLimits::OwnerNamed(std::string_view owner) {
  const auto found = owners_.find(owner);
  return found != owners_.end() ? found->second : owners_[std::string(owner)];
}

std::optional<ApiError> OwnerLimits::CountRequest(std::string_view owner, double now) {
  if (options_.requests_per_minute == 0) return std::nullopt;
  const auto most = static_cast<double>(options_.requests_per_minute);
  const double each = kSecondsPerMinute / most;  // seconds for one request
  const std::lock_guard lock(mutex_);
  Owner& asking = OwnerNamed(owner);
  asking.tokens =
      asking.noted < 0.0 ? most : std::min(most, asking.tokens + (now - asking.noted) / each);
  asking.noted = now;
  if (asking.tokens >= 1.0) {
    asking.tokens -= 1.0;
    return std::nullopt;
  }
  return ApiError{.status = 429,
                  .code = "rate_limit_exceeded",
                  .message = fmt::format("this key may send {} requests a minute",
                                         options_.requests_per_minute),
                  .param = "",
                  .retry_after = static_cast<int>(std::ceil((1.0 - asking.tokens) * each))};
}

std::variant<OwnerLimits::Place, ApiError> OwnerLimits::TakePlace(std::string_view owner) {
  if (options_.turns == 0) return Place();
  const std::lock_guard lock(mutex_);
  const auto turns = OwnerNamed(owner).turns;
  if (*turns >= options_.turns) {
    return ApiError{429, "key_over_share",
                    fmt::format("this key has {} turns waiting or running, which is all that one "
                                "may have; try again when one has ended",
                                options_.turns),
                    ""};
  }
  ++*turns;
  return Place(turns.get(), [turns](void*) { --*turns; });
}

}  // namespace mooring
