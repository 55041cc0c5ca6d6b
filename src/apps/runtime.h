// What a command that talks to a model needs, put together from the settings: backend, model file,
// model, tokenizer, chat template, engine.
//
// Thread rule: as Engine.
#ifndef MOORING_APPS_RUNTIME_H_
#define MOORING_APPS_RUNTIME_H_

#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/settings.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/text_encoder.h"
#include "kernels/backend.h"
#include "model/model.h"
#include "talk/dialogue.h"
#include "talk/long_memory.h"
#include "talk/term_table.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace mooring {

struct RuntimeNeeds {
  int conversations = 1;
  int step_rows = 128;
  int logit_rows = 1;
  bool chat_template = true;  // false: a model without a usable template is fine
  bool encoder = false;       // true: what was said is to be found by its meaning, too
};

struct Runtime {
  std::string model_name;  // what the user called it
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;  // null when not needed
  std::unique_ptr<const TermTable> terms;       // null where nothing is called back
  std::unique_ptr<TextEncoder> encoder;         // null: what is called back is found by its words
  std::string encoder_name = "none";            // what the user called it
  uint64_t encoder_number = 0;                  // Meaning::encoder
  std::unique_ptr<Engine> engine;
  std::vector<std::string> warnings;  // a clipped window, a CPU in place of a GPU

  // Refers to the encoder.
  Meaning meaning() const;
  // A few lines: model, precision, kernels, threads, window, memory. For a person.
  std::string Description() const;
};

// The type of keys and values; auto is what goes with the precision of the matmuls.
Result<DType> ChooseKeyValue(const Settings& settings);

// The kernels and threads that the settings ask for. Errors of Backend::Create.
Result<std::unique_ptr<Backend>> CreateBackend(const Settings& settings);

// What the settings of a command say, explained on its `err` if `--explain-plan` was given. Errors
// as they come from below, each with what to do.
Result<Runtime> LoadRuntime(const CommandContext& context, const RuntimeNeeds& needs);

// An empty dialogue with the memory that the runtime gives it. Errors of Dialogue::Create.
Result<Dialogue> OpenDialogue(const Runtime& runtime, SystemText system);

// The settings of a turn: sampler (a seed is drawn when there is none), stop strings, max_tokens
// and the tokens that end a turn for this model.
Result<TurnRequest> TurnFromSettings(const Settings& settings, const Runtime& runtime);

}  // namespace mooring

#endif  // MOORING_APPS_RUNTIME_H_
