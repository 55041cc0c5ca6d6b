// The part of `doctor` that looks at the machine.
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "apps/doctor.h"
#include "apps/kernel_check.h"
#include "apps/output.h"
#include "apps/runtime.h"
#include "base/thread_pool.h"
#include "bench/engine/ceilings.h"
#include "kernels/select.h"

namespace mooring {
namespace {

using Level = Finding::Level;

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The word or number behind `name` in lines of "name value" or "name: value".
std::optional<uint64_t> NumberIn(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    uint64_t value = 0;
    if (rest.peek() == ':') rest.get();
    if (rest >> value) return value;
  }
  return std::nullopt;
}

std::string ProcessorName() {
  std::istringstream lines(FileText("/proc/cpuinfo"));
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != line.npos) return line.substr(colon + 2);
  }
  return "processor";
}

// The share of the machine that the control group allows, in cores.
std::optional<double> QuotaCores() {
  std::istringstream text(FileText("/sys/fs/cgroup/cpu.max"));
  double quota = 0.0;
  double period = 0.0;
  if (text >> quota >> period && period > 0.0) return quota / period;
  return std::nullopt;  // "max", or no control groups
}

}  // namespace

void ExamineKernels(const Settings& settings, Findings* findings) {
  const std::string_view best = RunnableKernels().front()->name;
  const auto chosen = SelectKernels(settings.isa);
  const std::string cpu = SafeText(ProcessorName());
  if (!chosen.ok()) {
    findings->push_back({Level::kFail, "kernels: " + chosen.error().Message(),
                         "nothing can be computed", "set isa to auto"});
  } else if ((*chosen)->name != best) {
    findings->push_back(
        {Level::kWarn, fmt::format("kernels: {} in use on {}", (*chosen)->name, cpu),
         fmt::format("{} would be faster", best), "set isa to auto and unset MOORING_ISA"});
  } else if (best == "ref") {
    findings->push_back({Level::kWarn, fmt::format("kernels: only {} runs on {}", best, cpu),
                         "the portable kernels are several times slower",
                         "use a processor from 2013 or later"});
  } else {
    findings->push_back({Level::kOk, fmt::format("kernels: {} on {}", best, cpu)});
  }
}

void ExamineCores(const Settings& settings, Findings* findings) {
  const auto usable = static_cast<int64_t>(UsableCoreCount());
  const int64_t threads = settings.threads.value_or(usable);
  const auto machine = static_cast<int64_t>(std::thread::hardware_concurrency());
  const std::optional<double> quota = QuotaCores();
  if (quota && *quota < 1.0) {
    findings->push_back({Level::kWarn,
                         fmt::format("cores: the control group allows {:.2f} of a core", *quota),
                         "work stops for the rest of each period, so answers stutter",
                         "raise the CPU quota to at least one core"});
    return;
  }
  if (threads > usable) {
    findings->push_back({Level::kWarn,
                         fmt::format("cores: {} threads on {} usable cores", threads, usable),
                         "threads that wait for each other's core slow every step",
                         fmt::format("set threads to auto or {}", usable)});
    return;
  }
  findings->push_back({Level::kOk, fmt::format("cores: {} threads, {} of {} cores usable", threads,
                                               usable, machine)});
}

void ExamineSpeed(const Settings& settings, Findings* findings) {
  const auto backend = CreateBackend(settings);
  if (!backend.ok()) return;  // ExamineKernels says why
  constexpr DType kFormat = DType::kQ4_1;
  const MatmulFunction matmul =
      (*backend)->kernels().formats[static_cast<size_t>(kFormat)].matmul_int16;
  const Ceilings ceilings = MeasureCeilings(**backend, kFormat, matmul);
  findings->push_back(
      {Level::kOk,
       fmt::format("speed: {} threads read {:.1f} GB/s and multiply {:.1f} GMAC/s ({}, 16 bits)",
                   (*backend)->thread_count(), ceilings.gb_per_second, ceilings.gmac_per_second,
                   InfoOf(kFormat).name)});
}

void ExamineMemory(uint64_t needed_bytes, Findings* findings) {
  const std::string info = FileText("/proc/meminfo");
  uint64_t free_bytes = NumberIn(info, "MemAvailable").value_or(0) * 1024;
  std::istringstream limit_text(FileText("/sys/fs/cgroup/memory.max"));
  std::istringstream used_text(FileText("/sys/fs/cgroup/memory.current"));
  uint64_t limit = 0;
  uint64_t used = 0;
  if (limit_text >> limit && used_text >> used) {
    free_bytes = std::min(free_bytes, limit - std::min(limit, used));
  }
  const std::string what = fmt::format("memory: {} free, {} needed", HumanBytes(free_bytes),
                                       needed_bytes == 0 ? "unknown" : HumanBytes(needed_bytes));
  if (needed_bytes > free_bytes) {
    findings->push_back({Level::kFail, what, "the model would be read from disk again and again",
                         "close other programs, or choose a smaller model or window"});
  } else {
    findings->push_back({Level::kOk, what});
  }
  const uint64_t kills =
      NumberIn(FileText("/sys/fs/cgroup/memory.events"), "oom_kill ").value_or(0);
  if (kills > 0) {
    findings->push_back({Level::kWarn,
                         fmt::format("memory: the kernel has killed {} processes here", kills),
                         "the control group has run out of memory", "raise its memory limit"});
  }
  const uint64_t swap_total = NumberIn(info, "SwapTotal").value_or(0);
  const uint64_t swap_used =
      swap_total - std::min(swap_total, NumberIn(info, "SwapFree").value_or(0));
  if (swap_used * 2 > swap_total && swap_total > 0) {
    findings->push_back({Level::kWarn, fmt::format("swap: {} in use", HumanBytes(swap_used * 1024)),
                         "pages of a conversation that were swapped out make it slow",
                         "close other programs"});
  }
}

void ExaminePages(Findings* findings) {
  const std::string text = FileText("/sys/kernel/mm/transparent_hugepage/enabled");
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  if (open == text.npos || close == text.npos || close < open) return;
  const std::string mode = text.substr(open + 1, close - open - 1);
  if (mode == "never") {
    findings->push_back({Level::kWarn, "huge pages: never",
                         "reading weights takes a few per cent longer",
                         "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"});
  } else {
    findings->push_back({Level::kOk, "huge pages: " + mode});
  }
}

void ExamineLimits(Findings* findings) {
  constexpr rlim_t kEnough = 1024;
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const std::string what =
      limit.rlim_cur == RLIM_INFINITY
          ? std::string("open files: no limit")
          : fmt::format("open files: at most {}", static_cast<uint64_t>(limit.rlim_cur));
  if (limit.rlim_cur < kEnough) {
    findings->push_back({Level::kWarn, what, "many models or connections need more",
                         fmt::format("ulimit -n {}", kEnough)});
  } else {
    findings->push_back({Level::kOk, what});
  }
}

void ExamineClock(Findings* findings) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point last = Clock::now();
  for (int i = 0; i < 10000; ++i) {
    const Clock::time_point now = Clock::now();
    if (now < last) {
      findings->push_back({Level::kFail, "clock: the monotonic clock went back",
                           "time limits and measurements are wrong",
                           "choose another clock source for this (virtual) machine"});
      return;
    }
    last = now;
  }
  // A machine whose clock was never set is in 1970: downloads fail, and file times mean nothing.
  const auto since_epoch = std::chrono::system_clock::now().time_since_epoch();
  constexpr auto kYear2024 = std::chrono::hours(24) * 365 * 54;
  if (since_epoch < kYear2024) {
    findings->push_back({Level::kWarn, "clock: the date is not set",
                         "secure connections are refused", "set the clock"});
    return;
  }
  findings->push_back({Level::kOk, "clock: monotonic, date set"});
}

void ExamineTerminal(const Environment& environment, Findings* findings) {
  const auto value = [&](std::string_view name) {
    const auto it = environment.find(name);
    return it == environment.end() ? std::string() : it->second;
  };
  if (!IsTerminal(stdout)) {
    findings->push_back({Level::kOk, "terminal: none, output goes to a file or pipe"});
    return;
  }
  std::string locale = value("LC_ALL");
  if (locale.empty()) locale = value("LC_CTYPE");
  if (locale.empty()) locale = value("LANG");
  const bool utf8 = locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  if (!utf8) {
    findings->push_back({Level::kWarn, "terminal: the locale is not UTF-8",
                         "letters beyond ASCII may look wrong", "export LANG=C.UTF-8"});
  } else {
    findings->push_back({Level::kOk, "terminal: " + SafeText(value("TERM")) + ", UTF-8"});
  }
}

void ExamineNumbers(Findings* findings) {
  const auto tables = RunnableKernels();
  const Kernels& oracle = *tables.back();
  for (const Kernels* table : tables) {
    if (table == &oracle) continue;
    size_t good = 0;
    double worst = 0.0;
    for (const KernelCheck& result : CompareKernels(*table, oracle)) {
      if (result.ok()) {
        ++good;
        worst = std::max(worst, result.error / result.limit);
        continue;
      }
      findings->push_back({Level::kFail,
                           fmt::format("numbers: {} is off by {:.3g}, allowed is {:.3g}",
                                       result.name, result.error, result.limit),
                           "answers would be wrong",
                           fmt::format("set isa to {} and report this processor", oracle.name)});
    }
    findings->push_back(
        {Level::kOk, fmt::format("numbers: {} tests of {} agree with {}, the worst at "
                                 "{:.0f} % of its limit",
                                 good, table->name, oracle.name, worst * 100.0)});
  }
}

}  // namespace mooring
