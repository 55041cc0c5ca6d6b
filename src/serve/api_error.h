// Errors as clients of the API meet them, and the one table of what each code means in HTTP.
//
// Thread rule: pure functions.
#ifndef MOORING_SERVE_API_ERROR_H_
#define MOORING_SERVE_API_ERROR_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "serve/http.h"
#include "talk/host.h"

namespace mooring {

struct ApiError {
  int status = 400;
  std::string code;
  std::string message;
  std::string param = {};  // the field that is wrong; empty: none
  int retry_after = 1;     // seconds, where trying again helps
};

// invalid_request_error, authentication_error, ...: what goes with the status.
std::string_view ErrorType(int status);
// {"error":{"message","type","param","code"}}.
std::string ErrorBody(const ApiError& error);
// With Retry-After where trying again helps.
HttpResponse ErrorResponse(const ApiError& error);
// Why the host did not answer.
ApiError ErrorOf(Refusal why, const Error& error);
// Why the store did not do something.
ApiError ErrorOf(const Error& error);

}  // namespace mooring

#endif  // MOORING_SERVE_API_ERROR_H_
