#include "engine/kept_prefixes.h"

#include <algorithm>
#include <utility>

namespace mooring {
namespace {

constexpr size_t kMostKept = 8;
// Less is not worth a place: every template opens with a few words that all talks share.
constexpr int64_t kLeastTokens = 32;

int64_t CommonTokens(const std::vector<TokenId>& tokens, const TokenLog& log, int64_t most) {
  most = std::min({most, std::ssize(tokens), log.end().value});
  int64_t common = 0;
  while (common < most && tokens[static_cast<size_t>(common)] == log.token({common})) ++common;
  return common;
}

}  // namespace

int64_t KeptPrefixes::Begin(std::string_view name, const TokenLog& log, int64_t most,
                            Window* window) {
  auto best = kept_.end();
  int64_t common = kLeastTokens - 1;
  for (auto at = kept_.begin(); at != kept_.end(); ++at) {
    if (at->name != name) continue;
    const int64_t tokens = CommonTokens(at->tokens, log, most);
    if (tokens <= common) continue;
    common = tokens;
    best = at;
  }
  if (best == kept_.end()) return 0;
  kept_.splice(kept_.begin(), kept_, best);
  return window->BeginWith(best->pages, common);
}

void KeptPrefixes::Keep(std::string_view name, const TokenLog& log, const Window& window) {
  PagePrefix pages = window.FirstPages();
  if (pages.tokens() < kLeastTokens) return;
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(pages.tokens()));
  for (int64_t i = 0; i < pages.tokens(); ++i) tokens.push_back(log.token({i}));
  while (kept_.size() >= kMostKept) kept_.pop_back();
  kept_.push_front({std::string(name), std::move(tokens), std::move(pages)});
}

bool KeptPrefixes::DropOldest() {
  if (kept_.empty()) return false;
  kept_.pop_back();
  return true;
}

}  // namespace mooring
