// A list of which only the rows near the view are in the tree. Rows have heights that are not known
// until they are there: they are guessed, measured, and what is looked at never moves for it.
//
// `scroller` scrolls, `host` inside it holds the rows; `make(row)` gives a row's element, given the
// one before it if it had one, `guess(row)`
// its likely height. Rows are objects with a `key` that is theirs for good.

const kMarginPixels = 900;
const kAtEndPixels = 48;

export class VirtualList {
  rows = [];
  #scroller;
  #host;
  #make;
  #guess;
  #heights = new Map();
  #nodes = new Map();
  #before = document.createElement('div');
  #after = document.createElement('div');
  #tops = [0];
  #painting = 0;
  #followEnd = true;
  #observer = new ResizeObserver(() => this.#paintSoon());

  constructor(scroller, host, {make, guess, onScroll}) {
    this.#scroller = scroller;
    this.#host = host;
    this.#make = make;
    this.#guess = guess;
    host.append(this.#before, this.#after);
    this.#before.setAttribute('role', 'none');
    this.#after.setAttribute('role', 'none');
    scroller.addEventListener('scroll', () => {
      this.#followEnd = this.atEnd();
      this.#paintSoon();
      onScroll?.();
    }, {passive: true});
    this.#observer.observe(scroller);
  }

  atEnd() {
    const {scrollTop, scrollHeight, clientHeight} = this.#scroller;
    return scrollHeight - scrollTop - clientHeight < kAtEndPixels;
  }

  nodeOf(key) {
    return this.#nodes.get(key) ?? null;
  }

  // New rows; those with known keys keep their heights.
  set(rows, {toEnd = false} = {}) {
    const known = [...this.#nodes.keys()];
    const anchor = this.#anchor();
    this.rows = rows;
    if (toEnd) this.#followEnd = true;
    const keys = new Set(rows.map((row) => row.key));
    for (const key of this.#heights.keys()) if (!keys.has(key)) this.#heights.delete(key);
    this.refresh(known, anchor);
  }

  // Makes the elements of all rows anew, or of those given.
  refresh(keys = [...this.#nodes.keys()], anchor = this.#anchor()) {
    for (const key of keys) {
      const old = this.#nodes.get(key);
      const row = old && this.rows.find((other) => other.key === key);
      if (!row) continue;
      const fresh = this.#make(row, old);
      this.#observer.unobserve(old);
      old.replaceWith(fresh);
      this.#observer.observe(fresh);
      this.#nodes.set(key, fresh);
    }
    this.#paint(anchor);
  }

  toEnd() {
    this.#followEnd = true;
    this.#paint(null);
  }

  // Brings row `index` to the upper third of the view; its element is in the tree afterwards.
  show(index) {
    this.#followEnd = false;
    for (let pass = 0; pass < 3; ++pass) {  // heights become known on the way
      this.#measureTops();
      this.#scroller.scrollTop = this.#tops[index] - this.#scroller.clientHeight / 4;
      this.#paint(null);
    }
    this.#followEnd = this.atEnd();
    return this.#nodes.get(this.rows[index].key);
  }

  // First and last row that can be seen.
  visible() {
    if (this.rows.length === 0) return null;
    const {scrollTop, clientHeight} = this.#scroller;
    return [this.#rowAt(scrollTop), this.#rowAt(scrollTop + clientHeight - 1)];
  }

  #paintSoon() {
    this.#painting ||= requestAnimationFrame(() => this.#paint(this.#anchor()));
  }

  // The first row in view and how far down it stands: what must not move.
  #anchor() {
    if (this.rows.length === 0 || this.#followEnd) return null;
    const index = this.#rowAt(this.#scroller.scrollTop);
    return {key: this.rows[index].key, offset: this.#scroller.scrollTop - this.#tops[index]};
  }

  #paint(anchor) {
    cancelAnimationFrame(this.#painting);
    this.#painting = 0;
    // Twice: the first pass puts rows in by guessed heights, the second knows them.
    for (let pass = 0; pass < 2; ++pass) {
      this.#measureTops();
      this.#place(anchor);
      if (!this.#fill()) break;
    }
    this.#measureTops();
    this.#setSpacers();
    this.#place(anchor);
  }

  #place(anchor) {
    const scroller = this.#scroller;
    let top = scroller.scrollTop;
    if (this.#followEnd) top = scroller.scrollHeight;
    else if (anchor) {
      const index = this.rows.findIndex((row) => row.key === anchor.key);
      if (index >= 0) top = this.#tops[index] + anchor.offset;
    }
    if (Math.abs(top - scroller.scrollTop) >= 1) scroller.scrollTop = top;
  }

  // Puts the rows near the view into the tree; true if that changed any height.
  #fill() {
    const {scrollTop, clientHeight} = this.#scroller;
    const total = this.#tops.at(-1);
    const view = this.#followEnd ? Math.max(0, total - clientHeight) : scrollTop;
    const first = this.#rowAt(view - kMarginPixels);
    const last = this.rows.length === 0 ? -1 : this.#rowAt(view + clientHeight + kMarginPixels);
    const wanted = this.rows.slice(first, last + 1);
    const keys = new Set(wanted.map((row) => row.key));
    for (const [key, node] of this.#nodes) {
      if (keys.has(key)) continue;
      this.#observer.unobserve(node);
      node.remove();
      this.#nodes.delete(key);
    }
    let previous = this.#before;
    for (const row of wanted) {
      let node = this.#nodes.get(row.key);
      if (!node) {
        node = this.#make(row);
        this.#nodes.set(row.key, node);
        this.#observer.observe(node);
      }
      if (previous.nextSibling !== node) previous.after(node);
      previous = node;
    }
    this.range = [first, last];
    this.#setSpacers();
    let changed = false;
    for (const row of wanted) {
      const height = this.#nodes.get(row.key).offsetHeight;
      if (this.#heights.get(row.key) === height) continue;
      this.#heights.set(row.key, height);
      changed = true;
    }
    return changed;
  }

  #setSpacers() {
    const [first, last] = this.range ?? [0, -1];
    this.#before.style.height = `${this.#tops[Math.min(first, this.rows.length)] ?? 0}px`;
    this.#after.style.height = `${this.#tops.at(-1) - (this.#tops[last + 1] ?? 0)}px`;
  }

  #measureTops() {
    const tops = [0];
    for (const row of this.rows) {
      tops.push(tops.at(-1) + (this.#heights.get(row.key) ?? this.#guess(row)));
    }
    this.#tops = tops;
  }

  // The row at `y`; the nearest one when there is none.
  #rowAt(y) {
    let low = 0;
    let high = Math.max(0, this.rows.length - 1);
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#tops[middle + 1] > y) high = middle;
      else low = middle + 1;
    }
    return low;
  }
}
