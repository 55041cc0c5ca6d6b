// A conversation whole in one file (.moor): log, turns, window, so that it goes on exactly where it
// was. docs/formats.md has the bytes.
//
// A file is written to a temporary name, synced and renamed. It carries a checksum per section and
// over all, and the hashes of model, template and tokenizer, the instruction set and page layout. A
// file that does not fit, or of which one bit is wrong, is refused with the reason, and nothing
// changes.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_TALK_CONVERSATION_FILE_H_
#define MOORING_TALK_CONVERSATION_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/sampler.h"
#include "talk/dialogue.h"
#include "text/chat_template.h"

namespace mooring {

// What a file says of itself; also what it must match.
struct ConversationIdentity {
  std::string model_name;    // for people; not compared
  std::string model_sha256;  // of what tells models apart, see docs/formats.md
  uint64_t tokenizer_hash = 0;
  uint64_t template_hash = 0;
  std::string isa;  // pages made by another instruction set are exact only there
  std::string precision;

  friend bool operator==(const ConversationIdentity&, const ConversationIdentity&) = default;
};

struct ConversationFileInfo {
  uint32_t version = 0;
  ConversationIdentity identity;
  WindowShape window;
  std::string policy;
  std::string key_value;
  int64_t log_tokens = 0;
  int64_t turn_count = 0;  // messages of the user
  uint64_t file_bytes = 0;
};

// REQUIRES: the dialogue belongs to `engine` and no turn is under way.
Status SaveConversation(const std::filesystem::path& path, const Engine& engine,
                        const Dialogue& dialogue, const SamplerSettings& sampler,
                        const ConversationIdentity& identity);

struct RestoredConversation {
  Dialogue dialogue;
  SamplerSettings sampler;
};

// Into a new conversation of `engine`; `engine` and `chat_template` outlive it. kNotFound,
// kModelInvalid (corrupt: where, expected and found) or kConfig (another model, version,
// instruction set, window: both named).
Result<RestoredConversation> LoadConversation(const std::filesystem::path& path, Engine* engine,
                                              const ChatTemplate* chat_template,
                                              const ConversationIdentity& identity);

// Checks every checksum without an engine.
Result<ConversationFileInfo> InspectConversation(const std::filesystem::path& path);

// The messages as JSON ({"messages":[{"role","content"}],...}), from a checked file.
Result<std::string> ExportConversationText(const std::filesystem::path& path);

}  // namespace mooring

#endif  // MOORING_TALK_CONVERSATION_FILE_H_
