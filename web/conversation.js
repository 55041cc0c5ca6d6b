// The open conversation as the server knows it: a run of its newest items, its memory, and the
// answer that is being written. Holds no elements. Events: `items` (a new run), `answer` (its text
// grew), `memory`, `recall` (detail: spans that came back), `state` (answering began or ended),
// `title`, `trouble` (detail: an error).

import {Answer} from './answer.js';
import {ApiError} from './api.js';
import {throttled} from './dom.js';
import {excerpt} from './format.js';

const kTitleLength = 48;
const kResolution = 2048;

export class Conversation extends EventTarget {
  items = [];
  older = false;  // the server has items before items[0]
  memory = null;
  answer = null;
  #api;
  #watch = null;
  #following = false;  // events of memory are coming in
  #loading = null;
  #localCount = 0;
  #refreshSoon = throttled(500, () => this.#followChange());

  // `summary` null: one that exists from its first message on.
  constructor(api, summary) {
    super();
    this.#api = api;
    this.id = summary?.id ?? null;
    this.title = summary?.title ?? 'New conversation';
  }

  // Reads what there is; again when the server was away.
  async open() {
    if (!this.id) return;
    await Promise.all([this.#readNewest(), this.readMemory()]);
    if (!this.answering) this.#resumeAnswer();
    this.watch(true);
  }

  close() {
    this.watch(false);
    this.answer?.detach();
  }

  get answering() {
    return this.answer?.running ?? false;
  }

  // Instructions in force: the newest system message among those loaded.
  get instructions() {
    return this.items.findLast((item) => item.role === 'system')?.text ?? '';
  }

  // Reads the items before the first one: a page of them, or back to the one that holds `index`.
  // Calls while one runs share it.
  loadOlder(index = null) {
    this.#loading ??= (async () => {
      try {
        do {
          const first = this.items[0];
          if (!this.older || !first) break;
          const page = await this.#api.items(this.id, first.id);
          if (this.items[0] !== first) break;
          this.items = page.items.concat(this.items);
          this.older = page.more && page.items.length > 0;
        } while (index !== null && !this.itemAt(index));
        this.#tell('items');
      } catch (error) {
        this.#tell('trouble', error);
      } finally {
        this.#loading = null;
      }
    })();
    return this.#loading;
  }

  // The item that holds `index`, read from the server if need be; the first one when none does.
  async reach(index) {
    await this.#loading;
    if (!this.itemAt(index) && this.older) await this.loadOlder(index);
    return this.itemAt(index) ?? this.items[0] ?? null;
  }

  itemAt(index) {
    return this.items.find((item) => item.from !== null && item.from <= index && index < item.to) ?? null;
  }

  async readMemory() {
    if (!this.id || !this.#api.has('memory')) return;
    try {
      this.memory = await this.#api.memory(this.id, kResolution);
      this.#tell('memory');
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      this.memory = null;
    }
  }

  async send(text, settings) {
    if (this.answering) return;
    if (!this.id) {
      const made = await this.#api.create(excerpt(text, kTitleLength));
      this.id = made.id;
      this.title = made.title;
      this.#tell('title');
      this.watch(true);
    }
    this.items = this.items.concat(this.#local('user', text));
    await this.#answer(messagesOf(text, settings, this.instructions), settings);
  }

  // Says `text` in the place of `item`, a message of the user: what stood there becomes a branch.
  async replace(item, text, settings) {
    if (this.answering) return;
    const at = this.items.indexOf(item);
    if (at === 0) await this.loadOlder();
    const place = this.items.indexOf(item);
    await this.#api.rewind(this.id, this.items[place - 1]?.id ?? null);
    this.items = this.items.slice(0, place);
    await this.send(text, settings);
  }

  // Lets the model answer the same message once more.
  async regenerate(item, settings) {
    const at = this.items.indexOf(item);
    const asked = this.items.slice(0, at).findLast((other) => other.role === 'user');
    if (asked) await this.replace(asked, asked.text, settings);
  }

  async switchBranch(itemId) {
    if (this.answering) return;
    await this.#api.switchBranch(this.id, itemId);
    await Promise.all([this.#readNewest(), this.readMemory()]);
  }

  async pin(from, to, pinned) {
    await this.#api.pin(this.id, from, to, pinned);
    await this.readMemory();
  }

  stop() {
    this.answer?.stop();
  }

  // Follows what other devices and the engine do, while the page is to be seen.
  watch(on) {
    this.#watch?.abort();
    this.#watch = null;
    if (!on || !this.id || !this.#api.has('memory')) return;
    const watch = new AbortController();
    this.#watch = watch;
    this.#follow(watch.signal);
  }

  async #follow(signal) {
    while (!signal.aborted) {
      try {
        for await (const event of this.#api.memoryEvents(this.id, signal)) {
          this.#following = true;
          if (event.type === 'recall') this.#tell('recall', [event]);
          this.#refreshSoon();
        }
      } catch (error) {
        if (error instanceof ApiError) return;
      }
      this.#following = false;
      await new Promise((done) => setTimeout(done, 3000));
    }
  }

  async #followChange() {
    try {
      await this.readMemory();
      if (!this.answering) await this.#readNewest();
    } catch (error) {
      if (error instanceof ApiError) this.#tell('trouble', error);
    }
  }

  async #readNewest() {
    const page = await this.#api.items(this.id);
    if (this.answering) return;
    const known = this.items.findIndex((item) => item.id === page.items[0]?.id);
    const kept = known > 0 ? this.items.slice(0, known) : [];
    if (known < 0 || !page.more) this.older = page.more;
    keepKeys(this.items, page.items);
    this.items = kept.concat(page.items);
    this.#tell('items');
  }

  async #answer(messages, settings) {
    const item = this.#local('assistant', '');
    item.status = 'in_progress';
    this.items = this.items.concat(item);
    const answer = new Answer(this.#api, this.id, item);
    await this.#run(answer, () => answer.ask({
      ...settings.sampling, model: settings.model, conversation: this.id, messages, stream: true,
    }));
  }

  async #resumeAnswer() {
    const answer = Answer.left(this.#api, this.id, this.#local('assistant', ''));
    if (!answer) return;
    const last = this.items.at(-1);
    if (last?.role === 'assistant' && last.status !== 'completed') this.items = this.items.slice(0, -1);
    this.items = this.items.concat(answer.item);
    await this.#run(answer, () => answer.resume());
  }

  async #run(answer, start) {
    this.answer = answer;
    answer.addEventListener('text', () => this.#tell('answer'));
    answer.addEventListener('accepted', () => this.readMemory().catch(() => {}));
    const done = start();
    this.#tell('items');
    this.#tell('state');
    await done;
    if (this.answer !== answer) return;
    if (answer.recalled.length > 0 && !this.#following) this.#tell('recall', answer.recalled);
    this.#tell('state');
    try {
      await Promise.all([this.readMemory(), answer.unheard ? null : this.#readNewest()]);
    } catch {
      // Offline: what arrived stays on the page until the server can be asked again.
    }
    this.#tell('items');
  }

  #local(role, text) {
    this.#localCount += 1;
    return {
      key: `local-${this.#localCount}`, id: null, role, text, status: 'completed', turn: null,
      from: null, to: null, recalled: [], branches: [],
    };
  }

  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, {detail}));
  }
}

// Instructions travel only when they change.
function messagesOf(text, settings, instructions) {
  const user = {role: 'user', content: text};
  const wanted = settings.instructions;
  if (wanted === null || wanted === instructions) return [user];
  return [{role: 'system', content: wanted}, user];
}

// An item that was shown before the server had it keeps its key, and so its element and height.
function keepKeys(old, fresh) {
  for (let back = 1; back <= 2; ++back) {
    const before = old.at(-back);
    const after = fresh.at(-back);
    if (before && after && before.id === null && before.role === after.role) after.key = before.key;
  }
  const keys = new Map(old.filter((item) => item.id !== null).map((item) => [item.id, item.key]));
  for (const item of fresh) item.key = keys.get(item.id) ?? item.key;
}
