// A queue that serves owners in turn: however much one of them has waiting, the first of another's
// comes after one of its own. What one owner puts in comes out in its order.
//
// Thread rule: one at a time.
#ifndef MOORING_TALK_FAIR_QUEUE_H_
#define MOORING_TALK_FAIR_QUEUE_H_

#include <algorithm>
#include <deque>
#include <list>
#include <string>
#include <string_view>
#include <utility>

namespace mooring {

template <typename T>
class FairQueue {
 public:
  bool empty() const { return lines_.empty(); }

  void Push(std::string_view owner, T item) {
    const auto line = std::ranges::find(lines_, owner, &Line::owner);
    if (line != lines_.end()) {
      line->items.push_back(std::move(item));
    } else {
      lines_.push_back({std::string(owner), {}});
      lines_.back().items.push_back(std::move(item));
    }
  }
  // REQUIRES: not empty.
  const T& front() const { return lines_.front().items.front(); }
  // The owner of what was in front goes behind all others. REQUIRES: not empty.
  void Pop() {
    lines_.front().items.pop_front();
    if (lines_.front().items.empty()) {
      lines_.pop_front();
    } else {
      lines_.splice(lines_.end(), lines_, lines_.begin());
    }
  }
  // Takes out what `gone` says, and gives it back in no particular order.
  template <typename Gone>
  std::deque<T> Extract(Gone gone) {
    std::deque<T> taken;
    for (Line& line : lines_) {
      const auto kept = std::stable_partition(line.items.begin(), line.items.end(),
                                              [&](const T& item) { return !gone(item); });
      taken.insert(taken.end(), std::make_move_iterator(kept),
                   std::make_move_iterator(line.items.end()));
      line.items.erase(kept, line.items.end());
    }
    lines_.remove_if([](const Line& line) { return line.items.empty(); });
    return taken;
  }
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const Line& line : lines_) std::ranges::for_each(line.items, visit);
  }

 private:
  struct Line {
    std::string owner;
    std::deque<T> items;  // never empty
  };
  std::list<Line> lines_;  // the one whose turn it is first
};

}  // namespace mooring

#endif  // MOORING_TALK_FAIR_QUEUE_H_
