// The memory strip: the whole log on one canvas, the newest token at the bottom. A slider for the
// keyboard, with a lens that tells what stands at the cursor.

import {byId, el, prefersReducedMotion} from './dom.js';
import {excerpt, percent, plural, short, whole} from './format.js';
import {nameOf} from './message_view.js';
import {inView, kStates, layOut, makeScale, spanAt, windowTokens, wordOf} from './memory.js';

const kWidth = 24;
const kLeastTickGap = 15;
const kPageSpans = 10;
const kGlideMs = 900;

// How each state is drawn into an 8 by 8 tile; what is not drawn stays clear.
const kPatterns = {
  anchor: (tile) => {
    tile.fillRect(0, 0, 8, 8);
    tile.clearRect(3, 3, 2, 2);
  },
  key: (tile) => {
    for (let x = -8; x < 8; x += 4) {
      tile.beginPath();
      tile.moveTo(x, 8);
      tile.lineTo(x + 8, 0);
      tile.lineWidth = 2;
      tile.stroke();
    }
  },
  recalled: (tile) => {
    tile.fillRect(0, 0, 8, 3);
    tile.fillRect(0, 4, 8, 3);
  },
  recent: (tile) => tile.fillRect(0, 0, 8, 8),
  pinned: (tile) => {
    tile.fillRect(0, 0, 3, 8);
    tile.fillRect(4, 0, 3, 8);
  },
  archived: (tile) => {
    tile.fillRect(1, 1, 1, 1);
    tile.fillRect(5, 5, 1, 1);
  },
  text: (tile) => tile.fillRect(3, 3, 1, 1),
};

export class Tideline extends EventTarget {
  #memory = null;
  #strip = byId('strip');
  #canvas = byId('tideline');
  #ruler = byId('ruler');
  #lens = byId('lens');
  #cursor = null;  // the span that the lens shows
  #index = 0;  // the token in it that is meant
  #view = null;  // log indices in view in the transcript
  #height = 0;
  #lookUp;

  // `lookUp(index)` gives {item, turn} of a log index, as far as it is loaded.
  constructor(lookUp) {
    super();
    this.#lookUp = lookUp;
    new ResizeObserver(() => this.draw()).observe(this.#strip);
    this.#strip.addEventListener('pointermove', (event) => this.#point(event));
    this.#strip.addEventListener('pointerleave', () => this.#hideLens());
    this.#strip.addEventListener('click', (event) => {
      this.#point(event);
      this.#go();
    });
    this.#strip.addEventListener('keydown', (event) => this.#key(event));
    this.#strip.addEventListener('focus', () => {
      if (this.#memory && this.#strip.matches(':focus-visible')) this.#moveTo(this.#cursor ?? this.#memory.spans.length - 1);
    });
    this.#strip.addEventListener('blur', () => this.#hideLens());
  }

  set(memory) {
    this.#memory = memory && memory.log_tokens > 0 && memory.spans.length > 0 ? memory : null;
    this.#cursor = null;
    byId('memory').hidden = this.#memory === null;
    if (!this.#memory) return;
    this.#strip.setAttribute('aria-valuemax', String(memory.log_tokens - 1));
    this.#strip.setAttribute('aria-valuenow', String(memory.log_tokens - 1));
    this.#strip.setAttribute('aria-valuetext', numberLine(memory));
    this.draw();
  }

  setView(range) {
    if (String(range) === String(this.#view)) return;
    this.#view = range;
    this.draw();
  }

  focus() {
    this.#strip.focus();
    if (this.#memory) this.#moveTo(this.#cursor ?? this.#memory.spans.length - 1);
  }

  draw() {
    if (!this.#memory || this.#strip.clientHeight === 0) return;
    this.#height = this.#strip.clientHeight;
    const context = fit(this.#canvas, this.#canvas.clientWidth || kWidth, this.#height);
    const width = this.#canvas.clientWidth || kWidth;
    const colours = new Map();
    for (const {span, top, bottom} of layOut(this.#memory, this.#height)) {
      if (!colours.has(span.state)) colours.set(span.state, pattern(context, span.state));
      // Half the heads hold it: half as wide. What nobody holds is drawn whole, as the ground.
      const wide = inView(span.state) ? Math.max(width / 4, width * (span.share ?? 1)) : width;
      context.fillStyle = colours.get(span.state);
      context.fillRect(width - wide, top, wide, bottom - top);
    }
    this.#drawCursor(context, width);
    this.#drawRuler();
  }

  // The violet mark goes from where it was kept to the window, once.
  glide(spans) {
    if (!this.#memory || prefersReducedMotion() || this.#strip.clientHeight === 0) return;
    const {log_tokens: total, window} = this.#memory;
    const scale = this.#scale();
    for (const span of spans.slice(0, 8)) {
      const mark = el('span', {class: 'glide', 'aria-hidden': 'true'}, '◆');
      this.#strip.append(mark);
      const from = scale.toY(span.from);
      const to = scale.toY(Math.max(0, total - window.recent));
      mark.animate(
          [{transform: `translateY(${from}px)`, opacity: 0}, {opacity: 1, offset: 0.2}, {opacity: 1, offset: 0.8},
            {transform: `translateY(${to}px)`, opacity: 0}],
          {duration: kGlideMs, easing: 'cubic-bezier(.4, 0, .2, 1)'}).finished.finally(() => mark.remove());
    }
  }

  #scale() {
    return makeScale(this.#memory.log_tokens, this.#memory.window.capacity, this.#height);
  }

  #drawCursor(context, width) {
    if (this.#cursor === null) return;
    const scale = this.#scale();
    context.strokeStyle = getComputedStyle(this.#strip).color;
    const span = this.#memory.spans[this.#cursor];
    const top = Math.min(this.#height - 3, scale.toY(span.from));
    context.lineWidth = 1.5;
    context.strokeRect(0.75, top - 0.75, width - 1.5, Math.max(4, scale.toY(span.to) - top) + 1.5);
  }

  // Ages as on a tide gauge, and a bracket at what the transcript shows.
  #drawRuler() {
    const width = this.#ruler.clientWidth;
    if (width === 0) return;
    const context = fit(this.#ruler, width, this.#height);
    const {log_tokens: total} = this.#memory;
    const scale = this.#scale();
    const style = getComputedStyle(this.#ruler);
    context.font = `${style.fontSize} ${style.fontFamily}`;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.fillStyle = style.color;
    const ticks = [[this.#height - 6, 'now'], [6, 'start']];
    for (let age = 10 ** Math.floor(Math.log10(total)); age >= 100; age /= 10) {
      for (const step of [5, 2, 1]) {
        const y = scale.toY(total - age * step);
        if (age * step < total && ticks.every(([other]) => Math.abs(other - y) >= kLeastTickGap * (step === 1 ? 1 : 2))) {
          ticks.push([y, short(age * step)]);
        }
      }
    }
    for (const [y, word] of ticks) {
      context.fillText(word, width - 10, y);
      if (word !== 'now' && word !== 'start') context.fillRect(width - 6, Math.round(y), 5, 1);
    }
    if (!this.#view) return;
    const top = scale.toY(this.#view[0]);
    const bottom = Math.max(top + 4, scale.toY(this.#view[1]));
    context.fillStyle = getComputedStyle(this.#strip).color;
    context.fillRect(width - 2, top, 2, bottom - top);
  }

  #point(event) {
    if (!this.#memory) return;
    const y = event.clientY - this.#strip.getBoundingClientRect().top;
    // What is drawn on top is what is meant.
    const hit = layOut(this.#memory, this.#height).findLast(({top, bottom}) => top <= y && y < bottom);
    const scale = this.#scale();
    const index = scale.toIndex(y);
    this.#moveTo(hit ? hit.i : spanAt(this.#memory, index), index);
  }

  #key(event) {
    if (!this.#memory || event.altKey || event.ctrlKey || event.metaKey) return;
    const last = this.#memory.spans.length - 1;
    const at = this.#cursor ?? last;
    const moves = {
      ArrowUp: at - 1, ArrowLeft: at - 1, ArrowDown: at + 1, ArrowRight: at + 1,
      PageUp: at - kPageSpans, PageDown: at + kPageSpans, Home: 0, End: last,
    };
    if (event.key in moves) this.#moveTo(Math.min(last, Math.max(0, moves[event.key])));
    else if (event.key === 'Enter' || event.key === ' ') this.#go();
    else if (event.key === 'Escape' && !this.#lens.hidden) this.#hideLens();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #go() {
    if (this.#cursor === null) return;
    this.dispatchEvent(new CustomEvent('go', {detail: this.#index}));
  }

  // `index` within the span; its first token if none is given.
  #moveTo(cursor, index = this.#memory.spans[cursor].from) {
    const span = this.#memory.spans[cursor];
    this.#cursor = cursor;
    this.#index = Math.min(span.to - 1, Math.max(span.from, index));
    this.#strip.setAttribute('aria-valuenow', String(this.#index));
    const about = this.#lookUp(this.#index);
    const age = this.#memory.log_tokens - span.to;
    const facts = [
      `tokens ${whole(span.from)} to ${whole(span.to)}`,
      age === 0 ? 'the newest' : `${short(age)} tokens ago`,
      span.share > 0 && span.share < 1 ? `held by ${percent(span.share)} of the heads` : null,
      span.score === undefined ? null : `score ${span.score}`,
      span.recalled_at === undefined ? null : `last recalled at turn ${whole(span.recalled_at)}`,
      about.turn === null ? null : `turn ${whole(about.turn)}`,
    ].filter(Boolean);
    const text = about.item ? `${nameOf(about.item)}: ${excerpt(about.item.text, 140)}` : '';
    this.#strip.setAttribute('aria-valuetext', [wordOf(span.state), ...facts, text].filter(Boolean).join(', '));
    this.#lens.replaceChildren(
        el('p', {class: `lens-state mark-${span.state}`},
            el('span', {class: 'sign'}, kStates[span.state]?.sign ?? ''), ` ${wordOf(span.state)}`,
            el('span', {class: 'says'}, kStates[span.state]?.says ?? '')),
        text === '' ? el('p', {class: 'lens-none'}, 'Enter or click loads this place.') : el('p', {class: 'lens-text'}, text),
        el('p', {class: 'lens-facts'}, facts.join(' · ')));
    this.#lens.hidden = false;
    const scale = this.#scale();
    const y = scale.toY(this.#index) + this.#strip.offsetTop - this.#lens.offsetHeight / 2;
    this.#lens.style.top = `${Math.max(8, Math.min(y, innerHeight - this.#lens.offsetHeight - 16))}px`;
    this.draw();
  }

  #hideLens() {
    this.#lens.hidden = true;
    this.#cursor = null;
    this.draw();
  }
}

// "Remembers 8,192 of 1,048,612 tokens; 128 came back for this answer."
export function numberLine(memory) {
  const held = windowTokens(memory);
  const recalled = memory.window.recalled ?? 0;
  const all = memory.log_tokens;
  const line = held >= all ? `Remembers all ${plural(all, 'token')}` : `Remembers ${whole(held)} of ${whole(all)} tokens`;
  return recalled > 0 ? `${line}; ${whole(recalled)} came back for this answer.` : `${line}.`;
}

// A canvas of that many CSS pixels, sharp on this screen, empty.
function fit(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d');
  context.scale(scale, scale);
  return context;
}

// A small square of a state's pattern, for the legend.
export function swatch(state) {
  const canvas = el('canvas', {class: 'swatch', 'aria-hidden': 'true'});
  const context = fit(canvas, 16, 16);
  context.fillStyle = pattern(context, state);
  context.fillRect(0, 0, 16, 16);
  return canvas;
}

function pattern(context, state) {
  const probe = el('span', {class: `mark-${state}`, hidden: true});
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  const tile = document.createElement('canvas');
  const scale = devicePixelRatio || 1;
  tile.width = tile.height = Math.round(8 * scale);
  const paint = tile.getContext('2d');
  paint.scale(tile.width / 8, tile.height / 8);
  paint.fillStyle = paint.strokeStyle = colour;
  (kPatterns[state] ?? kPatterns.archived)(paint);
  const made = context.createPattern(tile, 'repeat');
  made.setTransform(new DOMMatrix().scale(8 / tile.width));
  return made;
}
