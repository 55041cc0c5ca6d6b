// How conversations began, with the pages of that: one that begins with the same tokens, under the
// same name, does not compute them again. A shared system text costs its reading once.
//
// The pages are the pool's, beside those of the conversations; whoever needs them asks DropOldest.
// Names keep owners apart: nothing is ever found under another name.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_ENGINE_KEPT_PREFIXES_H_
#define MOORING_ENGINE_KEPT_PREFIXES_H_

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "engine/token_log.h"
#include "memory/window.h"

namespace mooring {

class KeptPrefixes {
 public:
  // Begins the empty `window` with what is kept under `name` of the first `most` tokens of `log`;
  // returns how many tokens that saves.
  int64_t Begin(std::string_view name, const TokenLog& log, int64_t most, Window* window);
  // Keeps the beginning of `window`, which has read `log` from its start, unless it is too short.
  void Keep(std::string_view name, const TokenLog& log, const Window& window);
  // Gives back the pages of the one used longest ago; false when there is none.
  bool DropOldest();
  void DropAll() { kept_.clear(); }

 private:
  struct Kept {
    std::string name;
    std::vector<TokenId> tokens;
    PagePrefix pages;
  };

  std::list<Kept> kept_;  // used last first
};

}  // namespace mooring

#endif  // MOORING_ENGINE_KEPT_PREFIXES_H_
