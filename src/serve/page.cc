#include "serve/page.h"

#include <array>

// kPageFiles, made by tools/embed_page.py at build time.
#include "serve/page_files.inc"

namespace mooring {
namespace {

constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' "
    "data:; require-trusted-types-for 'script'; trusted-types dompurify; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";
constexpr std::string_view kAssets = "/assets/";

std::string_view TypeOf(std::string_view name) {
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  return "text/html; charset=utf-8";
}

}  // namespace

std::optional<HttpResponse> PageResponse(std::string_view path) {
  std::string_view name = "index.html";
  if (path != "/") {
    if (!path.starts_with(kAssets)) return std::nullopt;
    name = path.substr(kAssets.size());
  }
  for (const PageFile& file : kPageFiles) {
    if (file.name != name) continue;
    return HttpResponse{.status = 200,
                        .type = std::string(TypeOf(name)),
                        .headers = {{"Content-Security-Policy", std::string(kPolicy)},
                                    {"Referrer-Policy", "no-referrer"},
                                    {"Cache-Control", "no-cache"}},
                        .body = std::string(file.bytes)};
  }
  return std::nullopt;
}

}  // namespace mooring
