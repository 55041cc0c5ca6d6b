// The files of the page (web/), built into the program.
//
// Thread rule: constants.
#ifndef MOORING_SERVE_PAGE_H_
#define MOORING_SERVE_PAGE_H_

#include <optional>
#include <string_view>

#include "serve/http.h"

namespace mooring {

struct PageFile {
  std::string_view name;  // "index.html", "main.js"
  std::string_view bytes;
};

// For `/` and `/assets/NAME`; nothing for what the page does not have. Loads nothing from
// elsewhere, and runs no script of its own lines (the policy in the head says so).
std::optional<HttpResponse> PageResponse(std::string_view path);

}  // namespace mooring

#endif  // MOORING_SERVE_PAGE_H_
