// Errors that come from the outside world (a file, a request, a flag), as values.
//
// A function that can fail for such a reason returns Result<T> (or Status when there is nothing to
// return). A message answers what went wrong, where, what was expected, what was found and what to
// do; empty parts are left out. Mistakes of our own are CHECKs (base/check.h), and running out of
// pages or budget is an ordinary return value, not an Error.
//
// Thread rule: plain values.
#ifndef MOORING_BASE_RESULT_H_
#define MOORING_BASE_RESULT_H_

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"

namespace mooring {

// The number of a kind is the process exit code that the command line gives for it.
enum class ErrorKind {
  kFailed = 1,         // failed while running
  kUsage = 2,          // wrong flags or arguments
  kConfig = 3,         // configuration invalid
  kModelInvalid = 4,   // model file (or another input file) invalid or unsupported
  kNotFound = 5,       // model, conversation or file not found
  kNetwork = 6,        // network or download failed
  kResources = 7,      // not enough memory, disk or file descriptors
  kStateHeld = 8,      // state held by another process
  kFaultFound = 9,     // `doctor` or `verify` found a fault
  kInterrupted = 130,  // Ctrl-C
};

struct Error {
  ErrorKind kind = ErrorKind::kFailed;
  std::string what = {};      // what went wrong, without a final stop
  std::string where = {};     // file, field, flag, byte offset
  std::string expected = {};  // what would have been right
  std::string found = {};     // what was there
  std::string remedy = {};    // what to do about it

  // One line: "what (where): expected ..., found ...; remedy".
  std::string Message() const;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }

  // REQUIRES: ok().
  T& value() & {
    CHECK(ok(), "value() of a failed result: {}", error().Message());
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    CHECK(ok(), "value() of a failed result: {}", error().Message());
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    CHECK(ok(), "value() of a failed result: {}", error().Message());
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // REQUIRES: !ok().
  const Error& error() const& {
    CHECK(!ok(), "error() of a good result");
    return *std::get_if<1>(&state_);
  }
  Error&& error() && {
    CHECK(!ok(), "error() of a good result");
    return std::move(*std::get_if<1>(&state_));
  }

 private:
  std::variant<T, Error> state_;
};

// The result of a call that returns nothing.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Error error) : error_(std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return !error_.has_value(); }
  // REQUIRES: !ok().
  const Error& error() const {
    CHECK(!ok(), "error() of a good status");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace mooring

// Returns the error of `expression` (a Status or Result) from the calling function, if it failed.
#define MOORING_RETURN_IF_ERROR(expression)                    \
  do {                                                         \
    auto mooring_status_ = (expression);                       \
    if (!mooring_status_.ok()) return mooring_status_.error(); \
  } while (false)

// Declares `declaration` with the value of `expression`, a Result; returns its error if it failed.
#define MOORING_ASSIGN_OR_RETURN(declaration, expression)                                 \
  MOORING_ASSIGN_OR_RETURN_IMPL_(MOORING_CONCAT_(mooring_result_, __LINE__), declaration, \
                                 expression)
#define MOORING_ASSIGN_OR_RETURN_IMPL_(temporary, declaration, expression) \
  auto temporary = (expression);                                           \
  if (!temporary.ok()) return std::move(temporary).error();                \
  declaration = std::move(temporary).value()
#define MOORING_CONCAT_(a, b) MOORING_CONCAT_IMPL_(a, b)
#define MOORING_CONCAT_IMPL_(a, b) a##b

#endif  // MOORING_BASE_RESULT_H_
