#include "talk/conversation_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/files.h"
#include "talk/byte_stream.h"
#include "talk/checked_container.h"
#include "talk/memory_events.h"

namespace mooring {
namespace {

// The last is missing in files of the time before there was an encoder.
constexpr std::array<std::string_view, 7> kTags = {"IDEN", "SETT", "SAMP", "TURN",
                                                   "TLOG", "WIND", "VECS"};

struct SavedLog {
  std::vector<TokenId> tokens;
  std::vector<bool> generated;
};

// A whole file, checked; `snapshot` is borrowed from its bytes.
struct SavedConversation {
  ConversationFileInfo info;
  SamplerSettings sampler;
  DialogueState dialogue;
  SavedLog log;
  std::string_view snapshot;
};

Error Unusable(const std::string& where, std::string_view section) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = "the conversation file is damaged",
               .where = fmt::format("{}, section {}", where, section),
               .expected = "what this program writes there",
               .found = "something else under a right checksum"};
}

std::string WriteIdentity(const ConversationIdentity& identity) {
  std::string out;
  ByteWriter writer(&out);
  writer.Text(identity.model_name);
  writer.Text(identity.model_sha256);
  writer.Number(identity.tokenizer_hash);
  writer.Number(identity.template_hash);
  writer.Text(identity.isa);
  writer.Text(identity.precision);
  return out;
}

bool ReadIdentity(std::string_view body, ConversationIdentity* identity) {
  ByteReader reader(body);
  identity->model_name = reader.Text();
  identity->model_sha256 = reader.Text();
  identity->tokenizer_hash = reader.Number<uint64_t>();
  identity->template_hash = reader.Number<uint64_t>();
  identity->isa = reader.Text();
  identity->precision = reader.Text();
  return reader.complete();
}

std::string WriteSettings(const EngineOptions& options) {
  std::string out;
  ByteWriter writer(&out);
  writer.Number(options.window.capacity);
  writer.Number(options.window.anchors);
  writer.Number<uint32_t>(options.window.expire_by_page ? 1 : 0);
  writer.Number(options.window.recalled);
  writer.Text(options.policy);
  writer.Text(InfoOf(options.key_value).name);
  return out;
}

bool ReadSettings(std::string_view body, ConversationFileInfo* info) {
  ByteReader reader(body);
  info->window.capacity = reader.Number<int32_t>();
  info->window.anchors = reader.Number<int32_t>();
  info->window.expire_by_page = reader.Number<uint32_t>() != 0;
  info->window.recalled = reader.Number<int32_t>();
  info->policy = reader.Text();
  info->key_value = reader.Text();
  return reader.complete();
}

std::string WriteSampler(const SamplerSettings& sampler) {
  std::string out;
  ByteWriter writer(&out);
  writer.Number(sampler.temperature);
  writer.Number(sampler.top_p);
  writer.Number(sampler.top_k);
  writer.Number(sampler.min_p);
  writer.Number(sampler.repeat_penalty);
  writer.Number(sampler.presence_penalty);
  writer.Number(sampler.penalty_window);
  writer.Number(sampler.seed);
  writer.Number(sampler.dry_multiplier);
  writer.Number(sampler.dry_base);
  writer.Number(sampler.dry_allowed_length);
  return out;
}

bool ReadSampler(std::string_view body, SamplerSettings* sampler) {
  ByteReader reader(body);
  sampler->temperature = reader.Number<float>();
  sampler->top_p = reader.Number<float>();
  sampler->top_k = reader.Number<int32_t>();
  sampler->min_p = reader.Number<float>();
  sampler->repeat_penalty = reader.Number<float>();
  sampler->presence_penalty = reader.Number<float>();
  sampler->penalty_window = reader.Number<int32_t>();
  sampler->seed = reader.Number<uint64_t>();
  sampler->dry_multiplier = reader.Number<float>();
  sampler->dry_base = reader.Number<float>();
  sampler->dry_allowed_length = reader.Number<int32_t>();
  return reader.complete() && CheckSamplerSettings(*sampler).ok();
}

std::string WriteTurns(const Dialogue& dialogue) {
  std::string out;
  ByteWriter writer(&out);
  writer.Number<uint8_t>(dialogue.system().has_value() ? 1 : 0);
  writer.Number<uint8_t>(dialogue.system_is_new() ? 1 : 0);
  writer.Text(dialogue.system().value_or(""));
  writer.Number<uint64_t>(dialogue.turn_count());
  for (size_t i = 0; i < dialogue.turn_count(); ++i) {
    const TurnRecord turn = dialogue.turn(i);
    writer.Text(turn.role);
    writer.Text(turn.text);
    writer.Number(turn.from.value);
    writer.Number(turn.to.value);
  }
  return out;
}

bool ReadTurns(std::string_view body, int64_t log_tokens, DialogueState* state) {
  ByteReader reader(body);
  const bool has_system = reader.Number<uint8_t>() != 0;
  state->system_is_new = reader.Number<uint8_t>() != 0;
  std::string system = reader.Text();
  if (has_system) state->system = std::move(system);
  const auto count = reader.Number<uint64_t>();
  // Each record is longer than one byte: an absurd count runs out of bytes before memory.
  for (uint64_t i = 0; i < count && reader.ok(); ++i) {
    TurnRecord turn;
    turn.role = KnownRole(reader.Text());
    turn.text = reader.Text();
    turn.from.value = reader.Number<int64_t>();
    turn.to.value = reader.Number<int64_t>();
    if (turn.role.empty() || turn.from.value < 0 || turn.to < turn.from ||
        turn.to.value > log_tokens) {
      return false;
    }
    state->turns.push_back(std::move(turn));
  }
  return reader.complete();
}

std::string WriteLog(const TokenLog& log) {
  const auto count = static_cast<uint64_t>(log.end().value);
  std::string out;
  ByteWriter writer(&out);
  writer.Number(count);
  std::string bits((count + 7) / 8, '\0');
  for (uint64_t i = 0; i < count; ++i) {
    const LogIndex index = {static_cast<int64_t>(i)};
    writer.Number(log.token(index));
    if (log.generated(index)) {
      bits[i / 8] = static_cast<char>(static_cast<uint8_t>(bits[i / 8]) | (1U << (i % 8)));
    }
  }
  return out + bits;
}

bool ReadLog(std::string_view body, SavedLog* log) {
  ByteReader reader(body);
  const auto count = reader.Number<uint64_t>();
  if (!reader.ok() || count > reader.left() / sizeof(TokenId)) return false;
  log->tokens.resize(count);
  for (TokenId& token : log->tokens) token = reader.Number<TokenId>();
  const std::string_view bits = reader.Bytes((count + 7) / 8);
  if (!reader.complete()) return false;
  log->generated.resize(count);
  for (uint64_t i = 0; i < count; ++i) {
    log->generated[i] = ((static_cast<uint8_t>(bits[i / 8]) >> (i % 8)) & 1U) != 0;
  }
  return true;
}

std::string WriteVectors(const Dialogue& dialogue) {
  std::string out;
  ByteWriter writer(&out);
  for (const SpanVector& vector : dialogue.vectors()) {
    writer.Text(EventOf(vector.range.from, vector).bytes);
  }
  return out;
}

bool ReadVectors(std::string_view body, std::vector<SpanVector>* vectors) {
  ByteReader reader(body);
  std::vector<MemoryEvent> events;
  while (reader.ok() && reader.left() > 0) events.push_back({.at = {}, .bytes = reader.Text()});
  Result<MemoryNotes> notes = NotesOf(events);
  if (!reader.complete() || !notes.ok()) return false;
  *vectors = std::move(notes->vectors);
  return std::ranges::is_sorted(*vectors, {}, [](const SpanVector& one) { return one.range.from; });
}

Result<SavedConversation> Parse(std::string_view bytes, const std::string& where) {
  MOORING_ASSIGN_OR_RETURN(const std::vector<std::string_view> bodies,
                           OpenContainer(bytes, where, kTags, 1));
  SavedConversation saved;
  ConversationFileInfo& info = saved.info;
  info.version = kContainerVersion;
  info.file_bytes = bytes.size();
  if (!ReadIdentity(bodies[0], &info.identity)) return Unusable(where, kTags[0]);
  if (!ReadSettings(bodies[1], &info)) return Unusable(where, kTags[1]);
  if (!ReadSampler(bodies[2], &saved.sampler)) return Unusable(where, kTags[2]);
  if (!ReadLog(bodies[4], &saved.log)) return Unusable(where, kTags[4]);
  info.log_tokens = static_cast<int64_t>(saved.log.tokens.size());
  if (!ReadTurns(bodies[3], info.log_tokens, &saved.dialogue)) return Unusable(where, kTags[3]);
  for (const TurnRecord& turn : saved.dialogue.turns)
    info.turn_count += turn.role == "user" ? 1 : 0;
  if (!ReadVectors(bodies[6], &saved.dialogue.vectors)) return Unusable(where, kTags[6]);
  saved.snapshot = bodies[5];
  return saved;
}

// Whether what the file was made with is what runs now: pages are exact only there.
Status CheckFit(const ConversationFileInfo& info, const Engine& engine,
                const ConversationIdentity& identity, const std::string& where) {
  const auto same = [&where](std::string_view field, const std::string& now,
                             const std::string& then, std::string remedy) -> Status {
    if (now == then) return {};
    return Error{.kind = ErrorKind::kConfig,
                 .what = fmt::format("the conversation was made with another {}", field),
                 .where = where,
                 .expected = now,
                 .found = then,
                 .remedy = std::move(remedy)};
  };
  const auto hex = [](uint64_t hash) { return fmt::format("{:016x}", hash); };
  const auto model = [](const ConversationIdentity& of) {
    return fmt::format("{} ({})", of.model_name, of.model_sha256.substr(0, 16));
  };
  const ConversationIdentity& then = info.identity;
  const EngineOptions& options = engine.options();
  const std::string move = "or move its text with `mooring conv export` and `conv import`";
  if (then.model_sha256 != identity.model_sha256) {
    MOORING_RETURN_IF_ERROR(same("model", model(identity), model(then), "use that model, " + move));
  }
  MOORING_RETURN_IF_ERROR(
      same("tokenizer", hex(identity.tokenizer_hash), hex(then.tokenizer_hash), move.substr(3)));
  MOORING_RETURN_IF_ERROR(same("chat template", hex(identity.template_hash),
                               hex(then.template_hash), "use --template as then, " + move));
  MOORING_RETURN_IF_ERROR(same("instruction set", identity.isa, then.isa,
                               fmt::format("use --isa {} where it runs, {}", then.isa, move)));
  MOORING_RETURN_IF_ERROR(same("precision", identity.precision, then.precision,
                               fmt::format("use --precision {}, {}", then.precision, move)));
  MOORING_RETURN_IF_ERROR(same("memory policy", options.policy, info.policy,
                               fmt::format("use --policy {}, {}", info.policy, move)));
  const auto shape = [](const WindowShape& of) {
    return fmt::format("{} tokens, {} anchors, {} for what comes back, {} expiry", of.capacity,
                       of.anchors, of.recalled, of.expire_by_page ? "page" : "token");
  };
  MOORING_RETURN_IF_ERROR(same("window", shape(options.window), shape(info.window),
                               fmt::format("use --window {} --anchors {}, {}", info.window.capacity,
                                           info.window.anchors, move)));
  std::string key_value = info.key_value;
  for (const DType dtype : kKeyValueTypes) {
    if (InfoOf(dtype).name == info.key_value) key_value = KeyValueName(dtype);
  }
  return same("key/value type", std::string(KeyValueName(options.key_value)), key_value,
              fmt::format("use --kv {}, {}", key_value, move));
}

bool SameLog(const TokenLog& log, const SavedLog& saved) {
  if (log.end().value != static_cast<int64_t>(saved.tokens.size())) return false;
  for (size_t i = 0; i < saved.tokens.size(); ++i) {
    const LogIndex index = {static_cast<int64_t>(i)};
    if (log.token(index) != saved.tokens[i] || log.generated(index) != saved.generated[i]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Status SaveConversation(const std::filesystem::path& path, const Engine& engine,
                        const Dialogue& dialogue, const SamplerSettings& sampler,
                        const ConversationIdentity& identity) {
  const Conversation* conversation = engine.Find(dialogue.id());
  CHECK(conversation != nullptr && !conversation->busy());
  std::string snapshot;
  engine.AppendSnapshot(dialogue.id(), &snapshot);
  const std::array<std::string, 5> bodies = {WriteIdentity(identity),
                                             WriteSettings(engine.options()), WriteSampler(sampler),
                                             WriteTurns(dialogue), WriteLog(conversation->log())};
  std::vector<ContainerSection> sections;
  for (size_t i = 0; i < bodies.size(); ++i) sections.push_back({kTags[i], bodies[i]});
  const std::string vectors = WriteVectors(dialogue);
  sections.push_back({kTags[5], snapshot});
  sections.push_back({kTags[6], vectors});
  const std::string file = BuildContainer(sections);
  return WriteFileAtomically(path, std::as_bytes(std::span(file)));
}

Result<RestoredConversation> LoadConversation(const std::filesystem::path& path, Engine* engine,
                                              const ChatTemplate* chat_template,
                                              const ConversationIdentity& identity) {
  MOORING_ASSIGN_OR_RETURN(const std::string bytes, ReadContainerFile(path));
  MOORING_ASSIGN_OR_RETURN(SavedConversation saved, Parse(bytes, path.string()));
  MOORING_RETURN_IF_ERROR(CheckFit(saved.info, *engine, identity, path.string()));
  Result<ConversationId> id = engine->OpenSnapshot(std::as_bytes(std::span(saved.snapshot)));
  if (!id.ok()) {
    Error error = id.error();
    error.where = fmt::format("{}, {}", path.string(), error.where);
    return error;
  }
  if (!SameLog(engine->Find(*id)->log(), saved.log)) {
    engine->Close(*id);
    return Unusable(path.string(), kTags[5]);
  }
  return RestoredConversation{Dialogue(engine, chat_template, *id, std::move(saved.dialogue)),
                              saved.sampler};
}

Result<ConversationFileInfo> InspectConversation(const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string bytes, ReadContainerFile(path));
  MOORING_ASSIGN_OR_RETURN(const SavedConversation saved, Parse(bytes, path.string()));
  return saved.info;
}

Result<std::string> ExportConversationText(const std::filesystem::path& path) {
  MOORING_ASSIGN_OR_RETURN(const std::string bytes, ReadContainerFile(path));
  MOORING_ASSIGN_OR_RETURN(const SavedConversation saved, Parse(bytes, path.string()));
  nlohmann::ordered_json messages = nlohmann::ordered_json::array();
  for (const TurnRecord& turn : saved.dialogue.turns) {
    messages.push_back({{"role", turn.role}, {"content", turn.text}});
  }
  const nlohmann::ordered_json exported = {{"object", "conversation"},
                                           {"model", saved.info.identity.model_name},
                                           {"log_tokens", saved.info.log_tokens},
                                           {"messages", std::move(messages)}};
  // Bytes that are not UTF-8 have no place in JSON; each becomes U+FFFD.
  return exported.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace mooring
