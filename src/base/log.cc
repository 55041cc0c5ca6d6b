#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <array>
#include <memory>
#include <string>

namespace mooring {

Status SetUpLog(std::string_view level, bool color) {
  struct Named {
    std::string_view name;
    spdlog::level::level_enum level;
  };
  constexpr std::array<Named, 6> kLevels = {{{"trace", spdlog::level::trace},
                                             {"debug", spdlog::level::debug},
                                             {"info", spdlog::level::info},
                                             {"warn", spdlog::level::warn},
                                             {"error", spdlog::level::err},
                                             {"off", spdlog::level::off}}};
  for (const Named& named : kLevels) {
    if (named.name != level) continue;
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (color) {
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    }
    auto logger = std::make_shared<spdlog::logger>("mooring", std::move(sink));
    logger->set_pattern("%^%l%$: %v");
    logger->set_level(named.level);
    spdlog::set_default_logger(std::move(logger));
    return {};
  }
  return Error{.kind = ErrorKind::kUsage,
               .what = "unknown log level",
               .where = "--log-level",
               .expected = "trace, debug, info, warn, error or off",
               .found = std::string(level)};
}

}  // namespace mooring
