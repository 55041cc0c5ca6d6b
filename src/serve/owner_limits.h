// How much one owner (an API key) may ask of the server: a share of the turns, and requests a
// minute. Decided before a body is read, so that who asks too much costs little.
//
// Thread rule: any thread.
#ifndef MOORING_SERVE_OWNER_LIMITS_H_
#define MOORING_SERVE_OWNER_LIMITS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "serve/api_error.h"

namespace mooring {

struct OwnerLimitOptions {
  int64_t turns = 0;                // that wait or run; 0: no limit
  int64_t requests_per_minute = 0;  // 0: no limit; as many may come at once
};

class OwnerLimits {
 public:
  // Owners are keys, so there are few.
  explicit OwnerLimits(const OwnerLimitOptions& options) : options_(options) {}

  // Counts a request at the time `now` (monotonic seconds). 429 `rate_limit_exceeded`, with the
  // seconds until the next one may come, when there were too many.
  std::optional<ApiError> CountRequest(std::string_view owner, double now);

  // A turn's place, given back when the last copy goes; it may outlive this. 429 `key_over_share`
  // when the owner has all of its own.
  using Place = std::shared_ptr<void>;
  std::variant<Place, ApiError> TakePlace(std::string_view owner);

 private:
  struct Owner {
    double tokens = 0.0;  // requests that may come now
    double noted = -1.0;  // when that was so; negative: never
    std::shared_ptr<std::atomic<int64_t>> turns = std::make_shared<std::atomic<int64_t>>(0);
  };
  Owner& OwnerNamed(std::string_view owner);

  const OwnerLimitOptions options_;
  std::mutex mutex_;
  std::map<std::string, Owner, std::less<>> owners_;  // guarded by mutex_
};

}  // namespace mooring

#endif  // MOORING_SERVE_OWNER_LIMITS_H_
