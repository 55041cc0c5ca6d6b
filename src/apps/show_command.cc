// show: what a model file holds.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "apps/commands.h"
#include "apps/model_facts.h"
#include "apps/model_text.h"
#include "apps/output.h"
#include "engine/vocab_from_file.h"
#include "load/model_store.h"
#include "load/open.h"
#include "model/encoder.h"
#include "text/tokenizer.h"

namespace mooring {
namespace {

constexpr size_t kTemplateLines = 6;

// The tokenizer, or why there is none: `show` describes files that cannot be run, too.
struct TextFacts {
  VocabSpec vocab;
  std::string fault;
};

TextFacts TextFactsOf(const ModelFile& file) {
  TextFacts facts;
  auto vocab = ReadVocab(file);
  if (!vocab.ok()) {
    facts.fault = vocab.error().Message();
    return facts;
  }
  facts.vocab = std::move(vocab).value();
  const auto tokenizer = Tokenizer::Create(facts.vocab);
  if (!tokenizer.ok()) facts.fault = tokenizer.error().Message();
  return facts;
}

std::string ShapeText(const TensorView& view) {
  std::string text;
  for (int i = 0; i < view.rank; ++i) {
    text += fmt::format("{}{}", i == 0 ? "" : " x ", view.shape[static_cast<size_t>(i)]);
  }
  return text;
}

std::string FirstLines(const std::string& text, size_t count) {
  size_t at = 0;
  for (size_t line = 0; line < count && at < text.size(); ++line) {
    at = std::min(text.find('\n', at), text.size() - 1) + 1;
  }
  // One line can be the whole template.
  constexpr size_t kMostBytes = 400;
  return at < text.size() || at > kMostBytes ? text.substr(0, std::min(at, kMostBytes)) + "..."
                                             : text;
}

Json ArchJson(const Arch& arch) {
  return {{"family", arch.family},
          {"layers", arch.layer_count()},
          {"embedding", arch.embed_dim},
          {"feed_forward", arch.ffn_dim},
          {"heads", arch.query_heads},
          {"kv_heads", arch.kv_heads},
          {"head_size", arch.head_dim},
          {"vocabulary", arch.vocab_size},
          {"trained_window", arch.trained_window}};
}

Json EncoderJson(const EncoderArch& arch) {
  return {{"family", arch.family},
          {"layers", arch.layer_count},
          {"vector", arch.embed_dim},
          {"feed_forward", arch.ffn_dim},
          {"heads", arch.heads},
          {"vocabulary", arch.vocab_size},
          {"window", std::min(Encoder::kMostTokens, arch.positions)}};
}

Json ShowJson(const ModelFile& file, const ModelFacts& facts, const TextFacts& text, bool tensors) {
  Json json = {{"path", file.path().string()},       {"container", file.container()},
               {"bytes", file.file_bytes()},         {"name", facts.title},
               {"architecture", facts.architecture}, {"licence", facts.licence},
               {"parameters", facts.parameters}};
  if (facts.arch) {
    json["model"] = ArchJson(*facts.arch);
  } else if (facts.encoder) {
    json["encoder"] = EncoderJson(*facts.encoder);
  } else {
    json["fault"] = facts.why_no_arch;
  }
  for (const TensorClass& group : facts.classes) {
    json["weights"].push_back({{"class", group.name},
                               {"tensors", group.tensor_count},
                               {"parameters", group.parameters},
                               {"types", TypesText(group.bytes_per_type)}});
  }
  if (!facts.encoder) {
    json["tokenizer"] = {{"model", text.vocab.model},
                         {"pre_tokenizer", text.vocab.pre},
                         {"tokens", text.vocab.tokens.size()}};
    if (!text.fault.empty()) json["tokenizer"]["fault"] = text.fault;
    json["template"] = text.vocab.chat_template;
  }
  for (const auto& [name, source] : text.vocab.named_templates) {
    json["named_templates"][name] = source;
  }
  if (!tensors) return json;
  for (const NamedTensor& tensor : file.tensors()) {
    Json shape = Json::array();
    for (int i = 0; i < tensor.view.rank; ++i) {
      shape.push_back(tensor.view.shape[static_cast<size_t>(i)]);
    }
    json["tensors"].push_back({{"name", tensor.name},
                               {"type", InfoOf(tensor.view.dtype).name},
                               {"shape", std::move(shape)},
                               {"bytes", tensor.view.bytes()},
                               {"offset", tensor.file_offset}});
  }
  return json;
}

void PrintArch(std::FILE* out, const Arch& arch) {
  Print(out, "layers        {}\n", arch.layer_count());
  Print(out, "embedding     {}, feed forward {}\n", arch.embed_dim, arch.ffn_dim);
  Print(out, "heads         {} of {}, {} for keys and values\n", arch.query_heads, arch.head_dim,
        arch.kv_heads);
  Print(out, "window        trained on {} tokens\n", Grouped(arch.trained_window));
}

void PrintEncoder(std::FILE* out, const EncoderArch& arch) {
  Print(out,
        "kind          sentence encoder: finds what was said by its meaning; it cannot talk\n");
  Print(out, "layers        {}\n", arch.layer_count);
  Print(out, "vector        {} items, feed forward {}\n", arch.embed_dim, arch.ffn_dim);
  Print(out, "heads         {} of {}\n", arch.heads, arch.head_dim());
  Print(out, "window        {} tokens at most\n", std::min(Encoder::kMostTokens, arch.positions));
  Print(out, "tokenizer     {} words\n", Grouped(arch.vocab_size));
}

void PrintShow(CommandContext& context, const ModelFile& file, const ModelFacts& facts,
               const TextFacts& text) {
  std::FILE* out = context.out;
  if (!facts.title.empty()) Print(out, "name          {}\n", SafeText(facts.title));
  Print(out, "file          {}, {}, {}\n", SafeText(file.path().string()), file.container(),
        HumanBytes(file.file_bytes()));
  Print(out, "architecture  {}, {} parameters\n",
        facts.architecture.empty() ? "not named" : SafeText(facts.architecture),
        CountText(facts.parameters));
  if (facts.arch) {
    PrintArch(out, *facts.arch);
  } else if (facts.encoder) {
    PrintEncoder(out, *facts.encoder);
  } else {
    Print(out, "not usable    {}\n", SafeText(facts.why_no_arch));
  }
  Print(out, "licence       {}\n", facts.licence.empty() ? "not stated" : SafeText(facts.licence));
  if (!facts.encoder) {
    Print(out, "tokenizer     {}, pre-tokenizer {}, {} tokens\n", SafeText(text.vocab.model),
          text.vocab.pre.empty() ? "not named" : SafeText(text.vocab.pre),
          Grouped(static_cast<int64_t>(text.vocab.tokens.size())));
    if (!text.fault.empty()) Print(out, "not usable    {}\n", SafeText(text.fault));
  }
  Print(out, "\n");
  Table table({"WEIGHTS", "TENSORS", "PARAMETERS", "TYPES"});
  for (const TensorClass& group : facts.classes) {
    table.Add({group.name, Grouped(static_cast<int64_t>(group.tensor_count)),
               CountText(group.parameters), TypesText(group.bytes_per_type)});
  }
  table.Print(out, context.global.color);
  if (facts.encoder) return;
  const std::string& source = text.vocab.chat_template;
  const bool full = context.Has("template");
  Print(out, "\n{}\n", Bold("CHAT TEMPLATE", context.global.color));
  Print(out, "{}\n",
        source.empty() ? "none: messages become plain \"role: text\" lines"
                       : SafeText(full ? source : FirstLines(source, kTemplateLines), true));
}

Status RunShow(CommandContext& context) {
  MOORING_ASSIGN_OR_RETURN(const auto path, ResolveModel(context.arguments[0]));
  MOORING_ASSIGN_OR_RETURN(const auto file, OpenModelFile(path));
  ModelFacts facts = FactsOf(*file);
  const TextFacts text = TextFactsOf(*file);
  if (facts.licence.empty()) {
    // A file may be silent about its licence where the catalogue knows it.
    const auto store = ModelStore::OfThisUser();
    const auto found = store.ok() ? store->Find(context.arguments[0])
                                  : Result<std::optional<StoredModel>>(std::nullopt);
    if (found.ok() && *found) facts.licence = (**found).licence;
  }
  const bool tensors = context.Has("tensors");
  if (context.global.json) {
    PrintJson(context.out, ShowJson(*file, facts, text, tensors));
    return {};
  }
  PrintShow(context, *file, facts, text);
  if (!tensors) return {};
  Print(context.out, "\n");
  Table table({"TENSOR", "TYPE", "SHAPE", "SIZE"});
  for (const NamedTensor& tensor : file->tensors()) {
    table.Add({SafeText(tensor.name), std::string(InfoOf(tensor.view.dtype).name),
               ShapeText(tensor.view), HumanBytes(static_cast<uint64_t>(tensor.view.bytes()))});
  }
  table.Print(context.out, context.global.color);
  return {};
}

constexpr std::array<CommandFlag, 2> kShowFlags = {{
    {"template", 0, "", "the whole chat template"},
    {"tensors", 0, "", "every tensor with its type and shape"},
}};

}  // namespace

Command ShowCommand() {
  return {.name = "show",
          .arguments = "MODEL",
          .summary = "what a model file holds: sizes, types, tokenizer, template, licence",
          .examples = "mooring show smollm2\nmooring show ./model.gguf --tensors",
          .min_arguments = 1,
          .max_arguments = 1,
          .flags = kShowFlags,
          .run = RunShow};
}

}  // namespace mooring
