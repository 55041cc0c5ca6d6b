#include "engine/vocab_from_file.h"

#include <fmt/format.h>

#include <limits>
#include <string>

#include "model/families.h"

namespace mooring {
namespace {

constexpr std::string_view kPrefix = "tokenizer.ggml.";
constexpr std::string_view kTemplateKey = "tokenizer.chat_template";

Result<std::optional<TokenId>> ReadId(const ModelFile& file, std::string_view name) {
  const std::string key = fmt::format("{}{}_token_id", kPrefix, name);
  if (file.FindValue(key) == nullptr) return std::optional<TokenId>();
  MOORING_ASSIGN_OR_RETURN(const int64_t id, file.Get<int64_t>(key));
  if (id < 0 || id > std::numeric_limits<TokenId>::max()) {
    return Error{.kind = ErrorKind::kModelInvalid,
                 .what = "a token id is out of range",
                 .where = fmt::format("{}, {}", file.path().string(), key),
                 .expected = fmt::format("0 to {}", std::numeric_limits<TokenId>::max()),
                 .found = fmt::format("{}", id)};
  }
  return std::optional<TokenId>(static_cast<TokenId>(id));
}

}  // namespace

Result<VocabSpec> ReadVocab(const ModelFile& file) {
  const auto key = [](std::string_view name) { return std::string(kPrefix) + std::string(name); };
  // An encoder has words of another kind; that it cannot talk says more than that they are missing.
  if (FindEncoderFamily(file) != nullptr) return FindFamily(file).error();
  VocabSpec spec;
  MOORING_ASSIGN_OR_RETURN(spec.model, file.Get<std::string>(key("model")));
  MOORING_ASSIGN_OR_RETURN(spec.pre, file.GetOr<std::string>(key("pre"), ""));
  MOORING_ASSIGN_OR_RETURN(spec.tokens, file.Get<std::vector<std::string>>(key("tokens")));
  MOORING_ASSIGN_OR_RETURN(const std::vector<int64_t> types,
                           file.GetOr<std::vector<int64_t>>(key("token_type"), {}));
  for (const int64_t type : types) {
    spec.token_types.push_back(type >= 1 && type <= 6 ? static_cast<int32_t>(type)
                                                      : 0);  // 0: refused by the tokenizer
  }
  MOORING_ASSIGN_OR_RETURN(spec.merges, file.GetOr<std::vector<std::string>>(key("merges"), {}));
  MOORING_ASSIGN_OR_RETURN(spec.bos, ReadId(file, "bos"));
  MOORING_ASSIGN_OR_RETURN(spec.eos, ReadId(file, "eos"));
  MOORING_ASSIGN_OR_RETURN(spec.eot, ReadId(file, "eot"));
  MOORING_ASSIGN_OR_RETURN(spec.unk, ReadId(file, "unknown"));
  MOORING_ASSIGN_OR_RETURN(spec.pad, ReadId(file, "padding"));
  MOORING_ASSIGN_OR_RETURN(spec.add_bos, file.GetOr<bool>(key("add_bos_token"), false));
  MOORING_ASSIGN_OR_RETURN(spec.add_eos, file.GetOr<bool>(key("add_eos_token"), false));
  MOORING_ASSIGN_OR_RETURN(spec.chat_template,
                           file.GetOr<std::string>(std::string(kTemplateKey), ""));
  for (const auto& [name, value] : file.values()) {
    const std::string prefix = std::string(kTemplateKey) + ".";
    if (!name.starts_with(prefix)) continue;
    MOORING_ASSIGN_OR_RETURN(spec.named_templates[name.substr(prefix.size())],
                             file.Get<std::string>(name));
  }
  return spec;
}

}  // namespace mooring
