// The column of messages: the open conversation in a virtual list, with a current message that the
// keyboard moves. Painting of a growing answer is held to 20 times a second.

import {announce, byId, throttled} from './dom.js';
import {countWords, plural} from './format.js';
import {grow, isInView, messageView} from './message_view.js';
import {VirtualList} from './virtual_list.js';

const kPaintMs = 50;
const kLoadAheadPixels = 1600;

export class Transcript extends EventTarget {
  conversation = null;
  #list;
  #log = byId('log');
  #scroller = byId('scroller');
  #options;
  #current = null;  // key of the message that keys act on
  #turns = new Map();
  #paintAnswer = throttled(kPaintMs, () => this.#showAnswer());

  // `options` as messageView takes them, without memory and turn.
  constructor(options) {
    super();
    this.#options = options;
    this.#list = new VirtualList(this.#scroller, this.#log, {
      make: (item, old) => this.#make(item, old), guess: guessHeight, onScroll: () => this.#scrolled(),
    });
    this.#log.addEventListener('focusin', (event) => {
      const article = event.target.closest('article');
      if (article) this.#setCurrent(article.dataset.key);
    });
    byId('to-end').addEventListener('click', () => this.toEnd());
  }

  open(conversation) {
    this.conversation = conversation;
    this.#current = null;
    this.#list.set([], {toEnd: true});
    conversation.addEventListener('items', () => this.#itemsChanged(conversation));
    conversation.addEventListener('memory', () => this.#memoryChanged(conversation));
    conversation.addEventListener('answer', () => this.#paintAnswer());
    conversation.addEventListener('state', () => this.#stateChanged(conversation));
    this.#itemsChanged(conversation);
  }

  get current() {
    return this.conversation?.items.find((item) => item.key === this.#current) ?? null;
  }

  turnOf(item) {
    return item.turn ?? this.#turns.get(item.key) ?? null;
  }

  toEnd() {
    this.#list.toEnd();
    this.#scrolled();
  }

  // j and k: to the next or the one before; from the newest when none is current.
  async step(by) {
    const rows = this.#list.rows;
    const at = rows.findIndex((row) => row.key === this.#current);
    const next = at < 0 ? rows.length - 1 : at + by;
    if (next < 0 && this.conversation.older) {
      await this.conversation.loadOlder();
      return;
    }
    if (next >= 0 && next < rows.length) this.#focus(next);
  }

  reveal(item) {
    const index = this.#list.rows.findIndex((row) => row.key === item.key);
    if (index >= 0) this.#focus(index);
  }

  // Log indices from the first to the last message in view; null where they are not known.
  visibleRange() {
    const visible = this.#list.visible();
    if (!visible) return null;
    const from = this.#list.rows[visible[0]].from;
    const to = this.#list.rows[visible[1]].to ?? this.conversation.memory?.log_tokens ?? null;
    return from === null || to === null ? null : [from, to];
  }

  refresh() {
    this.#list.refresh();
  }

  #focus(index) {
    const node = this.#list.show(index);
    this.#setCurrent(node.dataset.key);
    node.focus({preventScroll: true});
    this.#scrolled();
  }

  #setCurrent(key) {
    this.#list.nodeOf(this.#current)?.classList.remove('current');
    this.#current = key;
    this.#list.nodeOf(key)?.classList.add('current');
  }

  #make(item, old) {
    const {memory} = this.conversation;
    const node = messageView(item, {...this.#options, memory, turn: this.turnOf(item), old});
    node.classList.toggle('current', item.key === this.#current);
    node.classList.toggle('boundary', this.#isBoundary(item));
    return node;
  }

  // Where the view of the model begins again after what it no longer sees.
  #isBoundary(item) {
    const {memory, items} = this.conversation;
    if (!memory || !isInView(memory, item)) return false;
    const before = items[items.indexOf(item) - 1];
    return before !== undefined && before.from !== null && !isInView(memory, before) &&
        !items.slice(items.indexOf(item) + 1).some((after) => after.from !== null && !isInView(memory, after));
  }

  #itemsChanged(conversation) {
    if (conversation !== this.conversation) return;
    this.#countTurns();
    byId('empty').hidden = conversation.items.length > 0;
    const had = this.#list.rows;
    const sent = conversation.items.at(-1)?.id === null && had.at(-1)?.key !== conversation.items.at(-1)?.key;
    this.#list.set(conversation.items, {toEnd: had.length === 0 || sent});
    this.#scrolled();
  }

  #memoryChanged(conversation) {
    if (conversation !== this.conversation) return;
    this.#list.refresh(conversation.items.filter((item) => item.status !== 'in_progress').map((item) => item.key));
    this.dispatchEvent(new Event('scroll'));
  }

  #stateChanged(conversation) {
    if (conversation !== this.conversation) return;
    const {answer} = conversation;
    this.#log.setAttribute('aria-busy', String(conversation.answering));
    if (conversation.answering) announce('Answering');
    else if (answer?.error) announce(answer.error.message);
    else if (answer) announce(`Done, ${plural(countWords(answer.item.text), 'word')}`);
    this.#showAnswer();
  }

  #showAnswer() {
    const item = this.conversation?.answer?.item;
    const body = item && this.#list.nodeOf(item.key)?.querySelector('.body');
    if (body) grow(body, item);
    if (!this.conversation?.answering && item) this.#list.refresh([item.key]);
  }

  // Turns of items whose number the server does not give: counted, once the first item is known.
  #countTurns() {
    this.#turns.clear();
    const {items, older} = this.conversation;
    let turn = items.find((item) => item.turn !== null)?.turn ?? (older ? null : 0);
    if (turn === null) return;
    for (const item of items) {
      if (item.turn !== null) turn = item.turn;
      else if (item.role === 'user') turn += 1;
      this.#turns.set(item.key, turn);
    }
  }

  #scrolled() {
    if (!this.conversation) return;
    if (this.conversation.older && this.#scroller.scrollTop < kLoadAheadPixels) this.conversation.loadOlder();
    byId('to-end').hidden = this.#list.atEnd() || this.#list.rows.length === 0;
    this.dispatchEvent(new Event('scroll'));
  }
}

// Good enough to give the scroll bar its size before a message was ever shown.
function guessHeight(item) {
  const lines = item.text.split('\n').reduce((sum, line) => sum + Math.max(1, Math.ceil(line.length / 72)), 0);
  return 76 + 27 * lines;
}
