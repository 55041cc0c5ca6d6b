#include "serve/api_error.h"

#include <nlohmann/json.hpp>

#include "serve/json_body.h"

namespace mooring {

std::string_view ErrorType(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
    case 405:
      return "not_found_error";
    case 409:
      return "conflict_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

std::string ErrorBody(const ApiError& error) {
  const Json json = {{"error",
                      {{"message", error.message},
                       {"type", ErrorType(error.status)},
                       {"param", error.param.empty() ? Json(nullptr) : Json(error.param)},
                       {"code", error.code}}}};
  return Dump(json);
}

HttpResponse ErrorResponse(const ApiError& error) {
  HttpResponse response = {.status = error.status, .body = ErrorBody(error)};
  const bool again =
      error.status == 429 || error.status == 503 || error.code == "conversation_busy";
  if (again) response.headers.emplace_back("Retry-After", std::to_string(error.retry_after));
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError ErrorOf(Refusal why, const Error& error) {
  const std::string message = error.Message();
  switch (why) {
    case Refusal::kNotFound:
      return {404, "conversation_not_found", "there is no such conversation", "conversation"};
    case Refusal::kResponseNotFound:
      return {404, "previous_response_not_found", "there is no such response",
              "previous_response_id"};
    case Refusal::kBusy:
      return {409, "conversation_busy", message, "conversation"};
    case Refusal::kChanged:
      return {409, "conversation_changed", message, "if_turn"};
    case Refusal::kOtherModel:
      return {409, "snapshot_mismatch", message, "conversation"};
    case Refusal::kQueueFull:
      return {503, "queue_full", message, ""};
    case Refusal::kDraining:
      return {503, "draining", message, ""};
    case Refusal::kTemplate:
      return {400, "template_error", message, "messages"};
    case Refusal::kInvalid:
      return {400, "invalid_value", message, ""};
    case Refusal::kDiskFull:
      return {507, "disk_full", "the disk is full: nothing was kept", ""};
    case Refusal::kFailed:
      break;
  }
  return {500, "internal", "the server failed at this; its log says why", ""};
}

ApiError ErrorOf(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kNotFound:
      return {404, "conversation_not_found", "there is no such conversation or item", ""};
    case ErrorKind::kUsage:
      return {400, "invalid_value", error.Message(), ""};
    case ErrorKind::kResources:
      return ErrorOf(Refusal::kDiskFull, error);
    default:
      return ErrorOf(Refusal::kFailed, error);
  }
}

}  // namespace mooring
