// The banner: what is wrong with the way to the server, and the way out of it.

import {button, byId, el} from './dom.js';

const kLongestWaitSeconds = 30;

export class Connection extends EventTarget {
  #api;
  #wait = 1;
  #timer = 0;
  #offline = false;

  constructor(api) {
    super();
    this.#api = api;
    api.addEventListener('offline', () => this.#lost());
    api.addEventListener('online', () => this.#found());
    addEventListener('online', () => this.#offline && this.#try());
  }

  // Something that went wrong and can be told in a sentence; goes at the next success.
  trouble(error) {
    if (this.#offline) return;
    byId('banner').replaceChildren(
        el('span', {}, error.message), button('Close', () => this.#hide(), {'aria-label': 'Close message'}));
    byId('banner').hidden = false;
  }

  clear() {
    if (!this.#offline) this.#hide();
  }

  #hide() {
    byId('banner').hidden = true;
    byId('banner').replaceChildren();
  }

  #lost() {
    if (!this.#offline) this.#wait = 1;
    this.#offline = true;
    clearTimeout(this.#timer);
    byId('banner').replaceChildren(
        el('span', {}, `The server does not answer. Trying again in ${this.#wait} s.`),
        button('Try now', () => this.#try()));
    byId('banner').hidden = false;
    this.#timer = setTimeout(() => this.#try(), this.#wait * 1000);
  }

  async #try() {
    clearTimeout(this.#timer);
    this.#wait = Math.min(kLongestWaitSeconds, this.#wait * 2);
    try {
      await this.#api.health();
    } catch {
      // `offline` was told again and has set the next try.
    }
  }

  #found() {
    if (!this.#offline) return;
    this.#offline = false;
    clearTimeout(this.#timer);
    this.#hide();
    this.dispatchEvent(new Event('back'));
  }
}
