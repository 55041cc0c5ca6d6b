// What the memory view means: the states with their words, the spans of a message, and the scale of
// the tideline. Pure functions, no elements.

// From what is hardest to lose to what only text is left of. Each has a word, a sign and a pattern
// (tideline.css, tideline.js), so that no state is told by its colour alone.
export const kStates = {
  pinned: {word: 'pinned', sign: '▲', says: 'held until you let go'},
  anchor: {word: 'anchor', sign: '⚓︎', says: 'always in view'},
  recalled: {word: 'recalled', sign: '◆', says: 'back in view, when asked for'},
  key: {word: 'key', sign: '✦', says: 'in view, because it mattered'},
  recent: {word: 'recent', sign: '●', says: 'in view'},
  archived: {word: 'archived', sign: '○', says: 'out of view, can come back'},
  text: {word: 'text only', sign: '·', says: 'out of view, kept as text'},
};

export const inView = (state) => state !== 'archived' && state !== 'text';

export const wordOf = (state) => kStates[state]?.word ?? state;

// The span that holds `index`, by binary search: spans cover the log in order.
export function spanAt(memory, index) {
  let low = 0;
  let high = memory.spans.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (memory.spans[middle].to > index) high = middle;
    else low = middle + 1;
  }
  return low;
}

// How many tokens of [from, to) are in which state, most first: [[state, tokens], …].
export function statesOf(memory, from, to) {
  if (!memory || memory.spans.length === 0 || from === null || to === null || to <= from) return [];
  const tokens = new Map();
  for (let i = spanAt(memory, from); i < memory.spans.length && memory.spans[i].from < to; ++i) {
    const span = memory.spans[i];
    const overlap = Math.min(to, span.to) - Math.max(from, span.from);
    if (overlap > 0) tokens.set(span.state, (tokens.get(span.state) ?? 0) + overlap);
  }
  return [...tokens].sort((a, b) => b[1] - a[1]);
}

export function windowTokens(memory) {
  const {anchors = 0, key = 0, recalled = 0, recent = 0, pinned = 0} = memory.window;
  return anchors + key + recalled + recent + pinned;
}

// Where a log index stands on a strip of `height`: 0 is the first token, `height` the last. Age is
// drawn on a logarithmic scale whose unit is chosen so that a full window takes kWindowShare of the
// strip, or more while the log is short: then the scale is linear.
const kWindowShare = 0.45;

export function makeScale(logTokens, capacity, height) {
  const total = Math.max(1, logTokens);
  if (capacity / total >= kWindowShare) {
    return {
      toY: (index) => index / total * height,
      toIndex: (y) => clampIndex(y / height * total, total),
    };
  }
  const share = (unit) => Math.log1p(capacity / unit) / Math.log1p(total / unit);
  let low = 1e-6;
  let high = total * 1e3;
  for (let i = 0; i < 80; ++i) {
    const middle = Math.sqrt(low * high);
    if (share(middle) > kWindowShare) low = middle;
    else high = middle;
  }
  const unit = low;
  const full = Math.log1p(total / unit);
  return {
    toY: (index) => height * (1 - Math.log1p(Math.max(0, total - index) / unit) / full),
    toIndex: (y) => clampIndex(total - unit * Math.expm1((1 - y / height) * full), total),
  };
}

const clampIndex = (index, total) => Math.min(total - 1, Math.max(0, Math.floor(index)));

// The rectangles of the strip, those in view last so that they cover: [{span, top, bottom}]. None is
// thinner than can be seen and hit, however few of a million tokens it holds.
const kThinnest = 2;
const kAnchorThinnest = 5;

export function layOut(memory, height) {
  const scale = makeScale(memory.log_tokens, memory.window.capacity, height);
  return memory.spans
      .map((span, i) => {
        let top = scale.toY(span.from);
        let bottom = scale.toY(span.to);
        const least = span.state === 'anchor' ? kAnchorThinnest : inView(span.state) ? kThinnest : 0;
        if (bottom - top < least) {
          bottom = Math.min(height, Math.max(least, bottom));
          top = bottom - least;
        }
        return {i, span, top, bottom};
      })
      .sort((a, b) => inView(a.span.state) - inView(b.span.state));
}
