#include "apps/model_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "model/families.h"

namespace mooring {
namespace {

struct ClassRule {
  std::string_view part;  // of the tensor's name
  std::string_view name;
};

// By what stands in a name, the first that fits.
constexpr std::array<ClassRule, 10> kClassRules = {{{"norm", "norms"},
                                                    {"LayerNorm", "norms"},
                                                    {"embeddings", "embedding"},
                                                    {"attention", "attention"},
                                                    {"dense", "feed forward"},
                                                    {"token_embd", "embedding"},
                                                    {"ffn", "feed forward"},
                                                    {"attn", "attention"},
                                                    {"output", "output"},
                                                    {"", "other"}}};

std::string_view ClassOf(std::string_view tensor) {
  for (const ClassRule& rule : kClassRules) {
    if (tensor.find(rule.part) != std::string_view::npos) return rule.name;
  }
  return "other";
}

std::string TextValue(const ModelFile& file, std::string_view key) {
  auto value = file.Get<std::string>(key);
  return value.ok() ? std::move(value).value() : std::string();
}

uint64_t ItemsOf(const TensorView& view) {
  return static_cast<uint64_t>(view.rows()) * static_cast<uint64_t>(view.columns());
}

}  // namespace

ModelFacts FactsOf(const ModelFile& file) {
  ModelFacts facts = {.title = TextValue(file, "general.name"),
                      .architecture = TextValue(file, "general.architecture"),
                      .licence = TextValue(file, "general.license")};
  const Result<const Family*> family = FindFamily(file);
  if (const EncoderFamily* encoder = FindEncoderFamily(file)) {
    Result<EncoderArch> arch = encoder->read_arch(file);
    if (arch.ok()) {
      facts.encoder = std::move(arch).value();
    } else {
      facts.why_no_arch = arch.error().Message();
    }
  } else if (family.ok()) {
    Result<Arch> arch = (*family)->read_arch(file);
    if (arch.ok()) {
      facts.arch = std::move(arch).value();
    } else {
      facts.why_no_arch = arch.error().Message();
    }
  } else {
    facts.why_no_arch = family.error().Message();
  }
  std::map<DType, uint64_t> all;
  for (const ClassRule& rule : kClassRules)
    facts.classes.push_back({.name = std::string(rule.name)});
  for (const NamedTensor& tensor : file.tensors()) {
    const auto at = std::ranges::find(facts.classes, ClassOf(tensor.name), &TensorClass::name);
    const auto bytes = static_cast<uint64_t>(tensor.view.bytes());
    at->bytes_per_type[tensor.view.dtype] += bytes;
    at->parameters += ItemsOf(tensor.view);
    ++at->tensor_count;
    all[tensor.view.dtype] += bytes;
    facts.parameters += ItemsOf(tensor.view);
  }
  std::erase_if(facts.classes, [](const TensorClass& c) { return c.tensor_count == 0; });
  const auto most = std::ranges::max_element(all, {}, [](const auto& type) { return type.second; });
  if (most != all.end()) facts.weight_type = InfoOf(most->first).name;
  return facts;
}

std::string TypesText(const std::map<DType, uint64_t>& bytes_per_type) {
  std::vector<std::pair<uint64_t, DType>> types;
  types.reserve(bytes_per_type.size());
  for (const auto& [type, bytes] : bytes_per_type) types.emplace_back(bytes, type);
  std::ranges::sort(types, std::greater());
  std::string text;
  for (const auto& [bytes, type] : types) {
    if (!text.empty()) text += ", ";
    text += InfoOf(type).name;
  }
  return text;
}

std::string CountText(uint64_t count) {
  const auto number = static_cast<double>(count);
  if (number >= 1e9) return fmt::format("{:.2f} G", number / 1e9);
  if (number >= 1e6) return fmt::format("{:.1f} M", number / 1e6);
  if (number >= 1e3) return fmt::format("{:.1f} k", number / 1e3);
  return fmt::format("{}", count);
}

}  // namespace mooring
