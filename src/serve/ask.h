// One request for an answer, whatever dialect it came in: OpenAI's chat, completions or responses.
//
// Thread rule: pure functions.
#ifndef MOORING_SERVE_ASK_H_
#define MOORING_SERVE_ASK_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <variant>

#include "serve/api_error.h"
#include "serve/field_table.h"
#include "serve/http.h"
#include "talk/host.h"

namespace mooring {

struct Ask {
  Dialect dialect = kChat;
  bool stream = false;
  bool include_usage = false;  // of a stream
  std::string prompt;          // of completions
  TurnOrder order;             // without owner and response id
};

// What holds where a request says nothing.
struct AskDefaults {
  std::string model;  // the only one there is
  TurnRequest turn;   // sampler, stop strings, max_tokens, end tokens
  int64_t max_tokens = 32768;
  size_t messages = 16384;
  bool match = true;  // recognise clients that resend their history
};

std::variant<Ask, ApiError> ReadAsk(const nlohmann::ordered_json& body, const HttpRequest& request,
                                    Dialect dialect, const AskDefaults& defaults);

// The messages of a body ("messages", "input", "items"): text, or lists of text parts.
std::variant<std::vector<RequestMessage>, ApiError> ReadMessages(const nlohmann::ordered_json& list,
                                                                 const std::string& param,
                                                                 size_t most);

}  // namespace mooring

#endif  // MOORING_SERVE_ASK_H_
