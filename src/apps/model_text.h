// The text side of a model: its vocabulary, tokenizer and chat template, without its weights.
//
// Thread rule: immutable once made; any thread may read.
#ifndef MOORING_APPS_MODEL_TEXT_H_
#define MOORING_APPS_MODEL_TEXT_H_

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "load/model_file.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

namespace mooring {

struct ModelText {
  std::unique_ptr<ModelFile> file;
  VocabSpec vocab;
  std::unique_ptr<const Tokenizer> tokenizer;
};

// The file that a name or path means.
Result<std::filesystem::path> ResolveModel(const std::string& name_or_path);

Result<ModelText> OpenModelText(const std::string& name_or_path);

// The template that `choice` means: auto (the model's own, else plain lines and a warning), a
// template of the model by name, a built-in one, or a file.
Result<ChatTemplate> ChooseChatTemplate(const std::string& choice, const VocabSpec& vocab,
                                        const Tokenizer& tokenizer,
                                        std::vector<std::string>* warnings);

}  // namespace mooring

#endif  // MOORING_APPS_MODEL_TEXT_H_
