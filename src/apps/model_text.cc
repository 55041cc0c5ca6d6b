#include "apps/model_text.h"

#include <system_error>
#include <utility>

#include "base/files.h"
#include "engine/vocab_from_file.h"
#include "load/model_folder.h"
#include "load/model_store.h"
#include "load/open.h"

namespace mooring {
namespace {

constexpr uint64_t kMaxTemplateBytes = 1 << 20;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// A file, or a folder that holds a model: any other folder only happens to be called like one.
bool IsModel(const std::string& path) {
  std::error_code ignored;
  return Exists(path) && (!std::filesystem::is_directory(path, ignored) ||
                          Exists(path + "/" + std::string(kFolderConfig)));
}

}  // namespace

Result<std::filesystem::path> ResolveModel(const std::string& name_or_path) {
  // A file needs no cache: this works where no folder for models can be.
  if (IsModel(name_or_path)) return std::filesystem::path(name_or_path);
  MOORING_ASSIGN_OR_RETURN(const ModelStore store, ModelStore::OfThisUser());
  return store.Resolve(name_or_path);
}

Result<ModelText> OpenModelText(const std::string& name_or_path) {
  MOORING_ASSIGN_OR_RETURN(const std::filesystem::path path, ResolveModel(name_or_path));
  ModelText model;
  MOORING_ASSIGN_OR_RETURN(model.file, OpenModelFile(path));
  MOORING_ASSIGN_OR_RETURN(model.vocab, ReadVocab(*model.file));
  MOORING_ASSIGN_OR_RETURN(model.tokenizer, Tokenizer::Create(model.vocab));
  return model;
}

Result<ChatTemplate> ChooseChatTemplate(const std::string& choice, const VocabSpec& vocab,
                                        const Tokenizer& tokenizer,
                                        std::vector<std::string>* warnings) {
  if (choice == "auto") {
    if (!vocab.chat_template.empty()) {
      return ChatTemplate::Create(vocab.chat_template, tokenizer);
    }
    warnings->push_back(
        "the model file has no chat template: messages are written as plain \"role: text\" lines");
    return ChatTemplate::Named("plain", tokenizer);
  }
  const auto named = vocab.named_templates.find(choice);
  if (named != vocab.named_templates.end()) {
    return ChatTemplate::Create(named->second, tokenizer);
  }
  if (!Exists(choice)) return ChatTemplate::Named(choice, tokenizer);
  MOORING_ASSIGN_OR_RETURN(std::string source, ReadFile(choice, kMaxTemplateBytes));
  return ChatTemplate::Create(std::move(source), tokenizer);
}

}  // namespace mooring
