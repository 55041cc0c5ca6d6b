// The list of conversations: search, rename, fork, export, delete, import. What it shows comes from
// the server; titles are searched here, over all pages of the list.

import {announce, button, byId, download, el} from './dom.js';
import {ask, confirmThat} from './dialogs.js';
import {when} from './format.js';

const kMostPages = 50;

export class Sidebar extends EventTarget {
  #api;
  #all = [];
  #current = null;
  #menu = null;

  constructor(api) {
    super();
    this.#api = api;
    byId('new').addEventListener('click', () => this.#open(null));
    byId('search').addEventListener('input', () => this.#show());
    byId('search').addEventListener('keydown', (event) => {
      const first = byId('talks').querySelector('a');
      if (event.key === 'ArrowDown') first?.focus();
      else if (event.key === 'Enter') first?.click();
    });
    byId('import').addEventListener('click', () => byId('import-file').click());
    byId('import-file').addEventListener('change', (event) => this.#import(event.target));
    byId('menu').addEventListener('click', () => this.toggle());
    document.addEventListener('pointerdown', (event) => {
      if (this.#menu && !this.#menu.contains(event.target)) this.#closeMenu();
      const drawer = document.body.classList.contains('drawer');
      if (drawer && !byId('sidebar').contains(event.target) && !byId('menu').contains(event.target)) this.toggle(false);
    });
    byId('talks').addEventListener('keydown', (event) => this.#arrows(event));
  }

  async read() {
    const all = [];
    for (let page = 0; page < kMostPages; ++page) {
      const {conversations, more} = await this.#api.conversations(all.at(-1)?.id);
      all.push(...conversations);
      if (!more || conversations.length === 0) break;
    }
    this.#all = all;
    this.#show();
    return all;
  }

  set current(id) {
    this.#current = id;
    this.#show();
  }

  // The drawer of a narrow page.
  toggle(open = !document.body.classList.contains('drawer')) {
    document.body.classList.toggle('drawer', open);
    byId('menu').setAttribute('aria-expanded', String(open));
    if (open) byId('search').focus();
  }

  search() {
    if (getComputedStyle(byId('menu')).display !== 'none') this.toggle(true);
    byId('search').focus();
  }

  #show() {
    const wanted = byId('search').value.trim().toLocaleLowerCase();
    const found = this.#all.filter((one) => one.title.toLocaleLowerCase().includes(wanted));
    byId('talks').replaceChildren(...found.map((one) => this.#row(one)));
    if (found.length === 0) {
      byId('talks').append(el('li', {}, wanted ? 'Nothing found' : 'Nothing said yet'));
    }
  }

  #row(one) {
    const link = el('a', {
      href: `#${one.id}`, title: one.title, 'aria-current': one.id === this.#current ? 'true' : null,
      onclick: (event) => {
        if (event.metaKey || event.ctrlKey || event.shiftKey) return;
        event.preventDefault();
        this.#open(one);
      },
    }, el('span', {class: 'name'}, one.title), el('time', {}, when(one.at)));
    const more = button('⋯', () => this.#openMenu(one, more), {
      class: 'plain more', 'aria-label': `More for ${one.title}`, 'aria-haspopup': 'menu', 'aria-expanded': 'false',
    });
    return el('li', {}, link, more);
  }

  #open(one) {
    this.toggle(false);
    this.dispatchEvent(new CustomEvent('open', {detail: one}));
  }

  #openMenu(one, opener) {
    const again = this.#menu?.opener === opener;
    this.#closeMenu();
    if (again) return;
    const choice = (word, call, feature) => (!feature || this.#api.has(feature)) &&
        el('button', {type: 'button', role: 'menuitem', tabindex: -1, onclick: () => {
          this.#closeMenu();
          this.#try(call);
        }}, word);
    this.#menu = el('div', {role: 'menu', class: 'menu', 'aria-label': one.title, onkeydown: (event) => this.#menuKeys(event)},
        [
          choice('Rename', () => this.#rename(one)),
          choice('Fork', () => this.#fork(one), 'fork'),
          choice('Export', () => this.#export(one), 'export'),
          choice('Delete', () => this.#remove(one)),
        ].filter(Boolean));
    this.#menu.opener = opener;
    opener.setAttribute('aria-expanded', 'true');
    opener.after(this.#menu);
    this.#menu.firstElementChild.focus();
  }

  #closeMenu() {
    if (!this.#menu) return;
    this.#menu.opener.setAttribute('aria-expanded', 'false');
    this.#menu.remove();
    this.#menu = null;
  }

  #menuKeys(event) {
    const choices = [...this.#menu.children];
    const at = choices.indexOf(document.activeElement);
    if (event.key === 'ArrowDown') choices[(at + 1) % choices.length].focus();
    else if (event.key === 'ArrowUp') choices.at(at - 1).focus();
    else if (event.key === 'Escape' || event.key === 'Tab') {
      const {opener} = this.#menu;
      this.#closeMenu();
      opener.focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #arrows(event) {
    const links = [...byId('talks').querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    if (at < 0 || (event.key !== 'ArrowDown' && event.key !== 'ArrowUp')) return;
    event.preventDefault();
    const next = at + (event.key === 'ArrowDown' ? 1 : -1);
    (links[next] ?? byId('search')).focus();
  }

  async #rename(one) {
    const title = await ask('Rename', 'Title', one.title);
    if (!title || title === one.title) return;
    one.title = (await this.#api.rename(one.id, title)).title;
    this.#show();
    this.dispatchEvent(new CustomEvent('renamed', {detail: one}));
  }

  async #fork(one) {
    const made = await this.#api.fork(one.id, null);
    await this.read();
    this.#open(made);
    announce('Forked');
  }

  async #export(one) {
    const file = await this.#api.export(one.id);
    const ending = file.type.includes('json') ? 'json' : 'moor';
    download(`${one.title.replace(/[^\p{L}\p{N}]+/gu, '-')}.${ending}`, file);
  }

  async #remove(one) {
    const sure = await confirmThat(`Delete “${one.title}”?`, 'With everything remembered.', 'Delete');
    if (!sure) return;
    await this.#api.remove(one.id);
    await this.read();
    this.dispatchEvent(new CustomEvent('removed', {detail: one}));
  }

  async #import(input) {
    const [file] = input.files;
    input.value = '';
    if (!file) return;
    await this.#try(async () => {
      const made = await this.#api.import(file);
      await this.read();
      this.#open(made);
    });
  }

  async #try(call) {
    try {
      await call();
    } catch (error) {
      this.dispatchEvent(new CustomEvent('trouble', {detail: error}));
    }
  }
}
