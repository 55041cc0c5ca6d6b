#include "kernels/select.h"

#include <cpuid.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "kernels/cpu/cpu.h"
#include "kernels/formats.h"
#include "kernels/ref/ref.h"

namespace mooring {
namespace {

// Names that mean something to us but have no table in this build.
constexpr std::array<std::string_view, 3> kNamesWithoutTable = {"avxvnni", "amx", "cuda"};

// The builtin also asks the operating system (XCR0) whether the wide registers are kept. It does
// not know F16C in every compiler, so that bit is read here.
bool MachineRunsAvx2() {
  uint32_t eax = 0;
  uint32_t ebx = 0;
  uint32_t ecx = 0;
  uint32_t edx = 0;
  const bool has_f16c = __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
  return has_f16c && __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
         __builtin_cpu_supports("bmi2") != 0;
}

bool MachineRunsAvx512() {
  return MachineRunsAvx2() && __builtin_cpu_supports("avx512f") != 0 &&
         __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

struct Candidate {
  Kernels kernels;
  bool runs;
};

// Best first.
const std::array<Candidate, 3>& Candidates() {
  static const std::array<Candidate, 3> kCandidates = {{
      {WithFormats(avx512::kOperations, &FormatRow::avx512), MachineRunsAvx512()},
      {WithFormats(avx2::kOperations, &FormatRow::avx2), MachineRunsAvx2()},
      {WithFormats(ref::kOperations, &FormatRow::ref), true},
  }};
  return kCandidates;
}

std::string WhyNot(std::string_view name) {
  const auto& candidates = Candidates();
  if (std::any_of(candidates.begin(), candidates.end(),
                  [&](const Candidate& c) { return c.kernels.name == name; })) {
    return "this machine cannot run these kernels";
  }
  if (std::count(kNamesWithoutTable.begin(), kNamesWithoutTable.end(), name) > 0) {
    return "this build has no such kernels";
  }
  return "unknown instruction set";
}

}  // namespace

std::vector<const Kernels*> RunnableKernels() {
  std::vector<const Kernels*> runnable;
  for (const Candidate& candidate : Candidates()) {
    if (candidate.runs) runnable.push_back(&candidate.kernels);
  }
  return runnable;
}

Result<const Kernels*> SelectKernels(std::string_view name) {
  std::string_view where = "--isa";
  if (name.empty() || name == "auto") {
    const char* forced = std::getenv("MOORING_ISA");
    where = "MOORING_ISA";
    name = forced != nullptr ? forced : "";
  }
  const std::vector<const Kernels*> runnable = RunnableKernels();
  if (name.empty() || name == "auto") return runnable.front();
  std::string names = "auto";
  for (const Kernels* kernels : runnable) {
    if (kernels->name == name) return kernels;
    names += fmt::format(", {}", kernels->name);
  }
  return Error{.kind = ErrorKind::kUsage,
               .what = WhyNot(name),
               .where = std::string(where),
               .expected = fmt::format("one of {}", names),
               .found = fmt::format("\"{}\"", name)};
}

}  // namespace mooring
