#include "apps/yaml_file.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "load/quote.h"

namespace mooring {
namespace {

constexpr size_t kMaxDepth = 8;
constexpr size_t kMaxKeys = 4096;

// Collects the entries while the parser walks the text. The first fault stays, and everything after
// it is passed over.
class Flattener : public YAML::EventHandler {
 public:
  explicit Flattener(std::string name) : name_(std::move(name)) {}

  std::vector<YamlEntry> entries;
  std::optional<Error> error;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1) Fail(mark, "more than one document", "one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    TakeScalar(mark, {RawValue::Kind::kNull, {}});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    Fail(mark, "an alias", "plain values");
  }
  void OnAnchor(const YAML::Mark& mark, const std::string& /*name*/) override {
    Fail(mark, "an anchor", "plain values");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    CheckTag(mark, tag);
    const bool plain = tag == "?" || tag.empty();
    if (plain && (value == "~" || value == "null" || value == "Null" || value == "NULL")) {
      TakeScalar(mark, {RawValue::Kind::kNull, {}});
    } else {
      TakeScalar(mark, RawValue::Text(value));
    }
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                       YAML::EmitterStyle::value /*style*/) override {
    CheckTag(mark, tag);
    if (error) return;
    if (in_list_ || !HasKey()) {
      return Fail(mark, "a list that is not the value of a key", "texts");
    }
    in_list_ = true;
    list_mark_ = mark;
    list_ = {RawValue::Kind::kList, {}};
  }
  void OnSequenceEnd() override {
    if (error || !in_list_) return;
    in_list_ = false;
    Add(list_mark_, std::move(list_));
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    CheckTag(mark, tag);
    if (error) return;
    if (in_list_ || (!maps_.empty() && !HasKey())) return Fail(mark, "a map here", "texts");
    if (maps_.size() >= kMaxDepth) {
      return Fail(mark, fmt::format("more than {} levels", kMaxDepth), "fewer");
    }
    maps_.push_back({Prefix(), {}, {}, mark});
  }
  void OnMapEnd() override {
    if (error || maps_.empty()) return;
    const Map map = std::move(maps_.back());
    maps_.pop_back();
    if (maps_.empty()) return;
    if (map.seen.empty()) {
      Add(map.mark, {RawValue::Kind::kMap, {}});
    } else {
      maps_.back().key.reset();
    }
  }

 private:
  struct Map {
    std::string prefix;
    std::set<std::string> seen;
    std::optional<std::string> key;  // read, and its value not yet
    YAML::Mark mark;
  };

  bool HasKey() const { return !maps_.empty() && maps_.back().key.has_value(); }
  std::string Prefix() const {
    return maps_.empty() ? std::string() : maps_.back().prefix + *maps_.back().key + ".";
  }
  std::string Where(const YAML::Mark& mark) const {
    return fmt::format("{}:{}", name_, mark.line + 1);
  }
  void Fail(const YAML::Mark& mark, std::string found, std::string expected) {
    if (error) return;
    error = Error{.kind = ErrorKind::kConfig,
                  .what = "bad configuration file",
                  .where = Where(mark),
                  .expected = std::move(expected),
                  .found = std::move(found)};
  }
  // "?" is what the parser calls a plain value and "!" a quoted one.
  void CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") Fail(mark, "a tag", "plain values");
  }

  void TakeScalar(const YAML::Mark& mark, RawValue value) {
    if (error) return;
    if (in_list_) {
      if (value.kind != RawValue::Kind::kText) return Fail(mark, "null in a list", "texts");
      list_.items.push_back(std::move(value.items[0]));
      return;
    }
    if (maps_.empty()) {
      // An empty file is one null.
      if (value.kind != RawValue::Kind::kNull) Fail(mark, "a single value", "keys and values");
      return;
    }
    if (HasKey()) return Add(mark, std::move(value));
    if (value.kind != RawValue::Kind::kText) return Fail(mark, "null as a key", "a name");
    TakeKey(mark, std::move(value.items[0]));
  }

  void TakeKey(const YAML::Mark& mark, std::string key) {
    Map& map = maps_.back();
    if (!map.seen.insert(key).second) {
      return Fail(mark, fmt::format("the key {} a second time", QuoteBytes(map.prefix + key)),
                  "each key once");
    }
    if (++key_count_ > kMaxKeys)
      return Fail(mark, fmt::format("more than {} keys", kMaxKeys), "fewer");
    map.key = std::move(key);
  }

  void Add(const YAML::Mark& mark, RawValue value) {
    Map& map = maps_.back();
    entries.push_back({map.prefix + *map.key, std::move(value), Where(mark)});
    map.key.reset();
  }

  std::string name_;
  std::vector<Map> maps_;  // the open ones, outermost first
  bool in_list_ = false;
  YAML::Mark list_mark_;
  RawValue list_;
  size_t key_count_ = 0;
  int documents_ = 0;
};

// A key with dots in it can come twice in two spellings: `a.b: 1` and `a: {b: 1}`.
std::optional<Error> FindDuplicate(const std::vector<YamlEntry>& entries) {
  std::set<std::string_view> seen;
  for (const YamlEntry& entry : entries) {
    if (seen.insert(entry.key).second) continue;
    return Error{.kind = ErrorKind::kConfig,
                 .what = "bad configuration file",
                 .where = entry.where,
                 .expected = "each key once",
                 .found = fmt::format("the key {} a second time", QuoteBytes(entry.key))};
  }
  return std::nullopt;
}

}  // namespace

Result<std::vector<YamlEntry>> ParseYaml(const std::string& text, const std::string& name) {
  // The parser takes a zero byte for the end of the file.
  if (const size_t zero = text.find('\0'); zero != std::string::npos) {
    const auto line = std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(zero), '\n');
    return Error{.kind = ErrorKind::kConfig,
                 .what = "bad configuration file",
                 .where = fmt::format("{}:{}", name, line + 1),
                 .expected = "text",
                 .found = "a zero byte"};
  }
  Flattener flattener(name);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (!flattener.error && parser.HandleNextDocument(flattener)) {
    }
  } catch (const YAML::Exception& exception) {
    return Error{
        .kind = ErrorKind::kConfig,
        .what = fmt::format("bad configuration file: {}", exception.msg),
        .where = fmt::format("{}:{}:{}", name, exception.mark.line + 1, exception.mark.column + 1)};
  } catch (const std::exception& exception) {
    return Error{.kind = ErrorKind::kConfig,
                 .what = fmt::format("bad configuration file: {}", exception.what()),
                 .where = name};
  }
  if (flattener.error) return *std::move(flattener.error);
  if (auto duplicate = FindDuplicate(flattener.entries)) return *std::move(duplicate);
  return std::move(flattener.entries);
}

}  // namespace mooring
