#include "apps/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "apps/output.h"
#include "bench/engine/ceilings.h"
#include "bench/engine/cost.h"

namespace mooring {
namespace {

std::string_view ProductsOf(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::kF32:
      return "floats";
    case Arithmetic::kF16:
      return "floats, activations rounded to fp16";
    case Arithmetic::kBF16:
      return "floats, activations rounded to bf16";
    case Arithmetic::kInt8:
      return "integers, activations of 8 bits";
    case Arithmetic::kInt16:
      return "integers, activations of 16 bits";
  }
  return "unknown";
}

// One row for all tensors of a kind that are multiplied alike.
struct TensorKind {
  std::string name;
  const Projection* first;
  double bytes = 0;
  double macs = 0;
};

void AddTensor(std::string_view name, const Projection& projection,
               std::vector<TensorKind>* kinds) {
  auto kind = std::ranges::find_if(*kinds, [&](const TensorKind& each) {
    return each.name == name && each.first->matmul == projection.matmul;
  });
  if (kind == kinds->end()) {
    kinds->push_back({std::string(name), &projection});
    kind = kinds->end() - 1;
  }
  kind->bytes += static_cast<double>(projection.weight.bytes());
  kind->macs += static_cast<double>(projection.outputs() * projection.inputs());
}

std::vector<TensorKind> KindsOf(const Weights& weights) {
  std::vector<TensorKind> kinds;
  for (const LayerWeights& layer : weights.layers) {
    for (const Projection* projection : {&layer.query, &layer.key, &layer.value}) {
      AddTensor("query, key, value", *projection, &kinds);
    }
    AddTensor("attention output", layer.attention_output, &kinds);
    for (const Projection* projection : {&layer.gate, &layer.up}) {
      AddTensor("gate, up", *projection, &kinds);
    }
    AddTensor("down", layer.down, &kinds);
  }
  AddTensor(weights.tied ? "logits (the embedding)" : "logits", weights.output, &kinds);
  return kinds;
}

void PrintTensors(std::FILE* file, bool color, const Runtime& runtime) {
  Table table({"tensors", "format", "products", "MB", "million products per token"});
  for (const TensorKind& kind : KindsOf(runtime.model->weights())) {
    table.Add({kind.name, std::string(InfoOf(kind.first->weight.dtype).name),
               std::string(ProductsOf(kind.first->arithmetic)),
               fmt::format("{:.1f}", kind.bytes / 1e6), fmt::format("{:.1f}", kind.macs / 1e6)});
  }
  table.Print(file, color);
}

struct Phase {
  std::string name;
  StepShape shape;
};

void PrintPhases(std::FILE* file, bool color, const Runtime& runtime, const Ceilings& ceilings) {
  const EngineOptions& options = runtime.engine->options();
  const auto window = static_cast<double>(options.window.capacity);
  const auto rows = static_cast<double>(options.step_rows);
  const Phase phases[] = {
      {fmt::format("read, {} tokens a step", options.step_rows),
       {.rows = rows, .logit_rows = 0, .attended = rows / 2}},
      {"answer, empty window", {}},
      {fmt::format("answer, window of {} full", options.window.capacity), {.attended = window}}};
  Table table({"phase", "MB a step", "million products", "bound by", "tokens/s at most"});
  for (const Phase& phase : phases) {
    const StepCost cost = CostOfStep(*runtime.model, options.key_value, phase.shape);
    const double reading = cost.bytes / (ceilings.gb_per_second * 1e9);
    const double multiplying = cost.macs / (ceilings.gmac_per_second * 1e9);
    table.Add({phase.name, fmt::format("{:.1f}", cost.bytes / 1e6),
               fmt::format("{:.0f}", cost.macs / 1e6),
               reading > multiplying ? "memory" : "products",
               fmt::format("{:.0f}", phase.shape.rows / std::max(reading, multiplying))});
  }
  table.Print(file, color);
}

}  // namespace

void PrintPlan(std::FILE* file, bool color, const Settings& settings, const Runtime& runtime) {
  const Projection& gate = runtime.model->weights().layers.front().gate;
  const Ceilings ceilings = MeasureCeilings(*runtime.backend, gate.weight.dtype, gate.matmul);
  Print(file, "{}", runtime.Description());
  Print(file, "kernels   {} (isa {}), {} threads (threads {})\n", runtime.backend->kernels().name,
        settings.isa, runtime.backend->thread_count(),
        settings.threads ? std::to_string(*settings.threads) : "auto: every usable core");
  Print(file, "machine   reads {:.1f} GB/s, multiplies {:.1f} G/s from the first cache ({})\n\n",
        ceilings.gb_per_second, ceilings.gmac_per_second, InfoOf(gate.weight.dtype).name);
  PrintTensors(file, color, runtime);
  Print(file, "\n");
  PrintPhases(file, color, runtime, ceilings);
  Print(file, "\n");
}

}  // namespace mooring
