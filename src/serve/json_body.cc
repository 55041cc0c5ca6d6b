#include "serve/json_body.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

namespace mooring {
namespace {

// Builds the value and stops at the first thing that we do not take.
class Builder : public nlohmann::json_sax<Json> {
 public:
  Json& root() { return root_; }
  const std::optional<ApiError>& fault() const { return fault_; }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t& /*text*/) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return false; }
  bool start_object(size_t /*size*/) override { return Open(Json::object()); }
  bool start_array(size_t /*size*/) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) {
      return Refuse("invalid_json", fmt::format("the key '{}' stands twice in one object",
                                                name.substr(0, kShownKeyBytes)));
    }
    if (level.keys.size() > kMaxJsonMembers) {
      return Refuse("invalid_json",
                    fmt::format("an object has more than {} members", kMaxJsonMembers));
    }
    level.key = name;
    return true;
  }

  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) override {
    // What the library says begins with its own name and number.
    const std::string_view text = error.what();
    const size_t colon = text.find(": ");
    const std::string_view reason = colon == text.npos ? text : text.substr(colon + 2);
    return Refuse("invalid_json",
                  fmt::format("the body is not valid JSON at byte {}: {}", position, reason));
  }

 private:
  static constexpr size_t kShownKeyBytes = 64;
  struct Level {
    Json* value;
    std::unordered_set<std::string> keys;
    std::string key;
  };

  bool Refuse(std::string code, std::string message) {
    if (!fault_) fault_ = ApiError{400, std::move(code), std::move(message), ""};
    return false;
  }

  // Where `value` was put, or null.
  Json* Place(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& holder = *levels_.back().value;
    if (holder.is_array()) {
      holder.push_back(std::move(value));
      return &holder.back();
    }
    // A new member, since no key comes twice.
    auto& members = holder.get_ref<Json::object_t&>();
    static_cast<Json::object_t::Container&>(members).emplace_back(levels_.back().key,
                                                                  std::move(value));
    return &members.back().second;
  }

  bool Add(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (levels_.size() >= kMaxJsonDepth) {
      return Refuse("json_too_deep",
                    fmt::format("the body is nested deeper than {}", kMaxJsonDepth));
    }
    levels_.push_back({Place(std::move(value)), {}, {}});
    return true;
  }

  bool Close() {
    levels_.pop_back();
    return true;
  }

  Json root_;
  // Pointers stay right: only the innermost value grows.
  std::vector<Level> levels_;
  std::optional<ApiError> fault_;
};

}  // namespace

std::variant<Json, ApiError> ParseBody(std::string_view text) {
  Builder builder;
  const bool whole = Json::sax_parse(text, &builder);
  if (builder.fault()) return *builder.fault();
  if (!whole || !builder.root().is_object()) {
    return ApiError{400, "invalid_json", "the body must be a JSON object", ""};
  }
  return std::move(builder.root());
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mooring
