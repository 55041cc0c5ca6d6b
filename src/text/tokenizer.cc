#include "text/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/random.h"
#include "text/utf8.h"

namespace mooring {
namespace {

// A longer piece is cut, so that positions inside one fit 32 bits with room to spare.
constexpr size_t kMaxPieceBytes = size_t{1} << 30U;

constexpr char kRemedy[] = "the file is damaged or was converted wrongly; get it again";

Error Invalid(std::string what, std::string where, std::string expected, std::string found) {
  return Error{.kind = ErrorKind::kModelInvalid,
               .what = std::move(what),
               .where = std::move(where),
               .expected = std::move(expected),
               .found = std::move(found),
               .remedy = kRemedy};
}

std::string TokenField(size_t id) { return fmt::format("tokenizer.ggml.tokens[{}]", id); }

// GPT-2 spells bytes as printable characters: those that are printable in Latin-1 as themselves,
// the others, in order, from U+0100 on.
std::array<uint16_t, 256> ByteCharacters() {
  std::array<uint16_t, 256> characters{};
  uint16_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    const bool itself = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
    characters[byte] = itself ? static_cast<uint16_t>(byte) : next++;
  }
  return characters;
}

// The inverse; -1 where no byte is spelt so. The last spelling is U+0143.
std::array<int16_t, 0x144> CharacterBytes() {
  std::array<int16_t, 0x144> bytes{};
  bytes.fill(-1);
  const auto characters = ByteCharacters();
  for (size_t byte = 0; byte < characters.size(); ++byte) {
    bytes[characters[byte]] = static_cast<int16_t>(byte);
  }
  return bytes;
}

// The bytes that a token in byte-to-unicode form stands for, or nothing when it is not in it.
std::optional<std::string> BytesOfToken(std::string_view token,
                                        const std::array<int16_t, 0x144>& bytes) {
  std::string result;
  while (!token.empty()) {
    const Utf8Char c = ReadUtf8(token);
    if (c.state != Utf8Char::State::kWhole || c.code_point >= bytes.size()) return std::nullopt;
    if (bytes[c.code_point] < 0) return std::nullopt;
    result.push_back(static_cast<char>(bytes[c.code_point]));
    token.remove_prefix(c.size);
  }
  return result;
}

bool IsKnownType(int32_t type) { return type >= 1 && type <= 6; }

bool IsNamed(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined;
}

uint64_t MixText(uint64_t hash, std::string_view text) {
  hash = MixBits(hash ^ text.size());
  for (size_t i = 0; i < text.size(); i += 8) {
    uint64_t word = 0;
    for (const char c : text.substr(i, 8)) word = (word << 8U) | static_cast<uint8_t>(c);
    hash = MixBits(hash ^ word);
  }
  return hash;
}

uint64_t Fingerprint(const VocabSpec& spec) {
  uint64_t hash = MixText(MixText(0, spec.model), spec.pre);
  hash = MixBits(hash ^ spec.tokens.size());
  for (const std::string& token : spec.tokens) hash = MixText(hash, token);
  for (const int32_t type : spec.token_types) hash = MixBits(hash ^ static_cast<uint32_t>(type));
  hash = MixBits(hash ^ spec.merges.size());
  for (const std::string& merge : spec.merges) hash = MixText(hash, merge);
  return hash;
}

Status CheckId(const std::optional<TokenId>& id, std::string_view name, size_t vocab_size) {
  if (!id.has_value() || (*id >= 0 && static_cast<size_t>(*id) < vocab_size)) return {};
  return Invalid("a special token is not in the vocabulary",
                 fmt::format("tokenizer.ggml.{}_token_id", name),
                 fmt::format("an id from 0 to {}", vocab_size - 1), fmt::format("{}", *id));
}

Status CheckSpec(const VocabSpec& spec) {
  if (spec.model != "gpt2") {
    Error error = Invalid("this kind of tokenizer is not supported", "tokenizer.ggml.model",
                          "gpt2 (byte-level BPE)", fmt::format("\"{}\"", spec.model));
    error.remedy = "use a model with a byte-level BPE vocabulary";
    return error;
  }
  if (!FindPreTokenizer(spec.pre)) {
    Error error = Invalid("this pre-tokenizer is not supported", "tokenizer.ggml.pre",
                          "smollm, gpt-2 or gpt2", fmt::format("\"{}\"", spec.pre));
    error.remedy = "use a model with one of these, or a file converted with its name set";
    return error;
  }
  const size_t size = spec.tokens.size();
  if (size == 0 || size > INT32_MAX) {
    return Invalid("the vocabulary has an impossible size", "tokenizer.ggml.tokens",
                   "1 to 2147483647 tokens", fmt::format("{}", size));
  }
  if (!spec.token_types.empty() && spec.token_types.size() != size) {
    return Invalid("tokens and their types differ in number", "tokenizer.ggml.token_type",
                   fmt::format("{}", size), fmt::format("{}", spec.token_types.size()));
  }
  if (spec.merges.size() >= MergeTable::kNoMerge) {
    return Invalid("there are too many merges", "tokenizer.ggml.merges", "fewer than 4294967295",
                   fmt::format("{}", spec.merges.size()));
  }
  MOORING_RETURN_IF_ERROR(CheckId(spec.bos, "bos", size));
  MOORING_RETURN_IF_ERROR(CheckId(spec.eos, "eos", size));
  MOORING_RETURN_IF_ERROR(CheckId(spec.eot, "eot", size));
  MOORING_RETURN_IF_ERROR(CheckId(spec.unk, "unknown", size));
  MOORING_RETURN_IF_ERROR(CheckId(spec.pad, "padding", size));
  return {};
}

}  // namespace

Tokenizer::Tokenizer(const VocabSpec& spec, PreTokenizer pre)
    : pre_(pre),
      merges_(spec.merges.size()),
      bos_(spec.bos),
      eos_(spec.eos),
      eot_(spec.eot),
      add_bos_(spec.add_bos),
      add_eos_(spec.add_eos),
      fingerprint_(Fingerprint(spec)) {}

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(const VocabSpec& spec) {
  MOORING_RETURN_IF_ERROR(CheckSpec(spec));
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer(spec, *FindPreTokenizer(spec.pre)));
  MOORING_RETURN_IF_ERROR(tokenizer->AddTokens(spec));
  MOORING_RETURN_IF_ERROR(tokenizer->AddMerges(spec));
  return std::unique_ptr<const Tokenizer>(std::move(tokenizer));
}

Status Tokenizer::AddTokens(const VocabSpec& spec) {
  const auto character_bytes = CharacterBytes();
  byte_ids_.fill(-1);
  piece_begin_.push_back(0);
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const std::string& token = spec.tokens[id];
    const int32_t number = spec.token_types.empty() ? 1 : spec.token_types[id];
    const auto type = static_cast<TokenType>(number);
    if (!IsKnownType(number) || type == TokenType::kByte) {
      return Invalid("a token has an impossible type",
                     fmt::format("tokenizer.ggml.token_type[{}]", id), "1 to 5",
                     fmt::format("{}", number));
    }
    if (token.empty() || !IsValidUtf8(token)) {
      return Invalid("a token is not text", TokenField(id), "non-empty UTF-8",
                     token.empty() ? "nothing" : "other bytes");
    }
    if (type == TokenType::kNormal) {
      const std::optional<std::string> bytes = BytesOfToken(token, character_bytes);
      if (!bytes) {
        return Invalid("a token is not spelt in bytes", TokenField(id),
                       "GPT-2's byte characters only", fmt::format("\"{}\"", token.substr(0, 64)));
      }
      if (bytes->size() == 1) {
        byte_ids_[static_cast<uint8_t>((*bytes)[0])] = static_cast<TokenId>(id);
      }
      pieces_ += *bytes;
    } else {
      pieces_ += token;
      if (IsNamed(type)) specials_.push_back({token, static_cast<TokenId>(id)});
    }
    types_.push_back(type);
    piece_begin_.push_back(pieces_.size());
  }
  const auto first_byte = [](const Special& s) { return static_cast<uint8_t>(s.name[0]); };
  std::sort(specials_.begin(), specials_.end(), [&](const Special& a, const Special& b) {
    if (first_byte(a) != first_byte(b)) return first_byte(a) < first_byte(b);
    if (a.name.size() != b.name.size()) return a.name.size() > b.name.size();
    return a.name < b.name;
  });
  for (const Special& special : specials_) ++special_begin_[first_byte(special) + 1U];
  for (size_t i = 1; i < special_begin_.size(); ++i) special_begin_[i] += special_begin_[i - 1];
  return {};
}

Status Tokenizer::AddMerges(const VocabSpec& spec) {
  std::unordered_map<std::string_view, TokenId> ids;
  ids.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto [other, is_new] = ids.emplace(spec.tokens[id], static_cast<TokenId>(id));
    if (!is_new) {
      return Invalid("a token is there twice", TokenField(id), "a token that no other id has",
                     fmt::format("that of id {}", other->second));
    }
  }
  // Only normal tokens take part, or a file could merge user text into a control token.
  const auto find = [&](std::string_view token) -> TokenId {
    const auto found = ids.find(token);
    if (found == ids.end()) return -1;
    return types_[static_cast<size_t>(found->second)] == TokenType::kNormal ? found->second : -1;
  };
  for (size_t rank = 0; rank < spec.merges.size(); ++rank) {
    const std::string& merge = spec.merges[rank];
    const std::string where = fmt::format("tokenizer.ggml.merges[{}]", rank);
    const std::string found = fmt::format("\"{}\"", merge.substr(0, 64));
    const size_t space = merge.find(' ');
    if (space == std::string::npos || merge.find(' ', space + 1) != std::string::npos) {
      return Invalid("a merge is not a pair", where, "two tokens with a space between", found);
    }
    const std::string_view left = std::string_view(merge).substr(0, space);
    const std::string_view right = std::string_view(merge).substr(space + 1);
    const TokenId left_id = find(left);
    const TokenId right_id = find(right);
    const TokenId result = find(std::string(left).append(right));
    if (left_id < 0 || right_id < 0 || result < 0) {
      return Invalid("a merge speaks of a token that is not there", where,
                     "two normal tokens that make a third", found);
    }
    if (!merges_.Add(left_id, right_id, {static_cast<uint32_t>(rank), result})) {
      return Invalid("a merge is there twice", where, "each pair once", found);
    }
  }
  return {};
}

const Tokenizer::Special* Tokenizer::SpecialAt(std::string_view text) const {
  const auto first = static_cast<uint8_t>(text[0]);
  for (uint32_t i = special_begin_[first]; i < special_begin_[first + 1U]; ++i) {
    if (text.substr(0, specials_[i].name.size()) == specials_[i].name) return &specials_[i];
  }
  return nullptr;
}

void Tokenizer::EncodeText(std::string_view text, MergeTable::Scratch* scratch,
                           std::vector<TokenId>* out) const {
  while (!text.empty()) {
    const size_t bytes = std::min(NextPieceBytes(pre_, text), kMaxPieceBytes);
    const size_t first = out->size();
    for (const char c : text.substr(0, bytes)) {
      const TokenId id = byte_ids_[static_cast<uint8_t>(c)];
      if (id >= 0) out->push_back(id);
    }
    merges_.Apply(first, out, scratch);
    text.remove_prefix(bytes);
  }
}

void Tokenizer::Encode(std::string_view bytes, Trust trust, std::vector<TokenId>* out) const {
  MergeTable::Scratch scratch;
  if (trust == Trust::kUntrusted) return EncodeText(bytes, &scratch, out);
  size_t text_begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const Special* special = SpecialAt(bytes.substr(at));
    if (special == nullptr) {
      ++at;
      continue;
    }
    EncodeText(bytes.substr(text_begin, at - text_begin), &scratch, out);
    out->push_back(special->id);
    at += special->name.size();
    text_begin = at;
  }
  EncodeText(bytes.substr(text_begin), &scratch, out);
}

std::vector<TokenId> Tokenizer::Encode(std::string_view bytes, Trust trust) const {
  std::vector<TokenId> ids;
  Encode(bytes, trust, &ids);
  return ids;
}

std::string_view Tokenizer::PieceBytes(TokenId id) const {
  DCHECK(id >= 0 && id < vocab_size());
  const auto index = static_cast<size_t>(id);
  return std::string_view(pieces_).substr(piece_begin_[index],
                                          piece_begin_[index + 1] - piece_begin_[index]);
}

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool show_special) const {
  std::string bytes;
  for (const TokenId id : ids) {
    if (id < 0 || id >= vocab_size()) continue;
    if (show_special || !IsSpecial(id)) bytes += PieceBytes(id);
  }
  return bytes;
}

bool Tokenizer::IsSpecial(TokenId id) const {
  if (id < 0 || id >= vocab_size()) return false;
  const TokenType type = types_[static_cast<size_t>(id)];
  return type != TokenType::kNormal && type != TokenType::kUserDefined;
}

std::optional<TokenId> Tokenizer::FindSpecial(std::string_view name) const {
  if (name.empty()) return std::nullopt;
  const Special* special = SpecialAt(name);
  if (special == nullptr || special->name.size() != name.size()) return std::nullopt;
  return special->id;
}

bool Tokenizer::encodes_all_bytes() const {
  return std::none_of(byte_ids_.begin(), byte_ids_.end(), [](TokenId id) { return id < 0; });
}

}  // namespace mooring
