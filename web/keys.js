// The keyboard of the page, as one table: what a key does, and what the help says of it.

import {openDialog} from './dialogs.js';
import {el} from './dom.js';

// `commands`: {key: [what it does, call]}. Single letters are not taken while something is written.
export function listenToKeys(commands) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (document.querySelector('dialog[open]')) return;
    const writing = event.target.closest?.('input, textarea, select');
    if (writing && event.key !== 'Escape') return;
    const command = commands[event.key];
    if (!command) return;
    if (event.key !== 'Escape') event.preventDefault();
    command[1]();
  });
}

export function showKeys(commands) {
  const more = {Enter: ['send; in the strip: go there'], 'Shift Enter': ['new line'], '↑ ↓': ['in the strip: from span to span']};
  const rows = Object.entries({...commands, ...more}).map(([key, [says]]) =>
    el('div', {}, el('dt', {}, key.split(' ').map((name) => el('kbd', {}, name === 'Escape' ? 'Esc' : name))), el('dd', {}, says)));
  openDialog('Keys', el('dl', {class: 'keys'}, rows));
}
