// The field that messages are written in. Drafts are kept on this device, one per conversation; a
// text file that is dropped on the page is read into the field.

import {announce, byId, isTouch} from './dom.js';

const kLargestFile = 4 * 1024 * 1024;
const kLongestDraft = 100_000;  // storage is for all drafts together
const kDrafts = 'mooring.draft.';

export class Composer extends EventTarget {
  #text = byId('composer-text');
  #send = byId('send');
  #draft = null;
  #answering = false;
  #editing = null;

  constructor() {
    super();
    this.#text.enterKeyHint = isTouch() ? 'enter' : 'send';
    this.#text.addEventListener('input', () => {
      this.#resize();
      if (!this.#editing) this.#keep();
    });
    this.#text.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.#editing) {
        this.endEdit();
        event.stopPropagation();
      }
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || isTouch()) return;
      event.preventDefault();
      this.#submit();
    });
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      if (this.#answering) this.dispatchEvent(new Event('stop'));
      else this.#submit();
    });
    for (const type of ['dragover', 'drop']) {
      document.addEventListener(type, (event) => {
        if (!event.dataTransfer?.types.includes('Files')) return;
        event.preventDefault();
        if (type === 'drop') this.read([...event.dataTransfer.files]);
      });
    }
  }

  open(conversationId) {
    this.#editing = null;
    this.#mark();
    this.#draft = kDrafts + (conversationId ?? 'new');
    this.#text.value = localStorage.getItem(this.#draft) ?? '';
    this.#resize();
  }

  // A new conversation has got its id; its first message is sent, so the draft is empty.
  rename(conversationId) {
    this.#draft = kDrafts + conversationId;
  }

  focus() {
    this.#text.focus();
  }

  // The text of an earlier message, to be sent in its place; the draft comes back afterwards.
  edit(item) {
    this.#editing = item;
    this.#text.value = item.text;
    this.#mark();
    this.#resize();
    this.focus();
  }

  endEdit() {
    this.#editing = null;
    this.#text.value = localStorage.getItem(this.#draft) ?? '';
    this.#mark();
    this.#resize();
  }

  // Back into the field: what could not be sent.
  giveBack(text) {
    if (this.#text.value !== '') return;
    this.#text.value = text;
    this.#keep();
    this.#resize();
  }

  set answering(on) {
    this.#answering = on;
    this.#mark();
  }

  async read(files) {
    for (const file of files) {
      if (file.size > kLargestFile) {
        this.#trouble(`${file.name} is larger than 4 MB.`);
        continue;
      }
      let text;
      try {
        text = new TextDecoder('utf-8', {fatal: true}).decode(await file.arrayBuffer());
      } catch {
        this.#trouble(`${file.name} is not a text file.`);
        continue;
      }
      const before = this.#text.value === '' ? '' : `${this.#text.value.trimEnd()}\n\n`;
      this.#text.value = `${before}${file.name}:\n\n${text}`;
      announce(`${file.name} was read into the message`);
    }
    this.#keep();
    this.#resize();
    this.focus();
  }

  #submit() {
    const text = this.#text.value.trim();
    if (text === '' || this.#answering) return;
    const item = this.#editing;
    if (item) this.endEdit();
    else {
      this.#text.value = '';
      this.#keep();
      this.#resize();
    }
    this.dispatchEvent(new CustomEvent('send', {detail: {text, item}}));
  }

  #keep() {
    if (this.#text.value === '') localStorage.removeItem(this.#draft);
    else localStorage.setItem(this.#draft, this.#text.value.slice(0, kLongestDraft));
  }

  #mark() {
    const word = this.#answering ? 'Stop' : this.#editing ? 'Send again' : 'Send';
    this.#send.firstElementChild.textContent = this.#answering ? '■' : '▸';
    this.#send.lastElementChild.textContent = word;
    this.#send.classList.toggle('stop', this.#answering);
    byId('composer').classList.toggle('editing', this.#editing !== null);
  }

  #resize() {
    this.#text.style.height = 'auto';
    this.#text.style.height = `${Math.min(this.#text.scrollHeight, innerHeight * 0.4)}px`;
  }

  #trouble(message) {
    this.dispatchEvent(new CustomEvent('trouble', {detail: new Error(message)}));
  }
}
