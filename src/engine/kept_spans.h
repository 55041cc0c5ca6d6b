// Spans that were read again, with the pages of that: one that is called back once more, after it
// has left the window, is copied and not computed.
//
// What the pages hold is a function of the tokens of the anchors and of the span, so these are the
// key, and a span is found by every conversation that says the same under the same name: a fork,
// one that was parked, one that begins anew. Names keep owners apart.
//
// Thread rule: the engine's thread only.
#ifndef MOORING_ENGINE_KEPT_SPANS_H_
#define MOORING_ENGINE_KEPT_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/token_log.h"
#include "memory/window.h"

namespace mooring {

class KeptSpans {
 public:
  // Keeps at most `most_bytes` of pages; the one used longest ago goes first. 0: keeps nothing.
  explicit KeptSpans(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  bool Has(std::string_view name, const TokenLog& log, const LogRange& span, int32_t anchors) const;
  // Fills `alone`, which holds the anchors of the log and nothing else, with the span. False when
  // it is not kept, or there are no pages.
  bool Fill(std::string_view name, const TokenLog& log, const LogRange& span, Window* alone);
  // Keeps the span, which `alone` has read behind the anchors.
  void Keep(std::string_view name, const TokenLog& log, const LogRange& span, const Window& alone);
  void DropAll();

  uint64_t bytes() const { return bytes_; }
  uint64_t most_bytes() const { return most_bytes_; }

 private:
  struct Kept {
    std::string key;
    std::vector<std::byte> pages;
  };

  uint64_t most_bytes_;
  uint64_t bytes_ = 0;
  std::list<Kept> kept_;                                                    // used last first
  std::unordered_map<std::string_view, std::list<Kept>::iterator> by_key_;  // into kept_
};

}  // namespace mooring

#endif  // MOORING_ENGINE_KEPT_SPANS_H_
