#include "kernels/cpu/page_sight.h"

#include "base/check.h"

namespace mooring {

HeadTurn TurnBy(const RotaryTable* rotary, int32_t turn) {
  if (rotary == nullptr || rotary->half_dim() == 0) return {};
  DCHECK(turn >= 0 && turn < rotary->turn_count(), "turn {}", turn);
  return {rotary->cosines(turn), rotary->sines(turn), rotary->half_dim()};
}

PageSight SightOf(const AttendTask& task, const PageRef& page, int row) {
  const RowPlace& place = task.places[row];
  const SlotRange slots = VisibleSlots(page, place);
  if (slots.empty()) return {};
  return {slots.first, slots.last,
          TurnBy(task.rotary, QueryTurn(place.query, page.query_cap, page.base))};
}

}  // namespace mooring
