// Small windows over the page. Each is a <dialog>: focus stays inside, Esc closes, focus returns.

import {button, el} from './dom.js';

// Opens a dialog with `content`; resolves with its return value when it closes.
export function openDialog(title, content, {wide = false} = {}) {
  const id = 'dialog-title';
  const dialog = el('dialog', {'aria-labelledby': id, class: wide ? 'wide' : null},
      el('header', {},
          el('h2', {id}, title),
          button('×', () => dialog.close(''), {'aria-label': 'Close', class: 'plain close'})),
      content);
  dialog.addEventListener('click', (event) => {
    if (event.target === dialog) dialog.close('');
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.querySelector('[autofocus]')?.focus();
  return new Promise((done) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      done(dialog.returnValue);
    });
  });
}

const row = (...buttons) => el('div', {class: 'row'}, buttons);
const submit = (word, value, attributes = {}) => el('button', {type: 'submit', value, ...attributes}, word);

export async function confirmThat(title, text, word) {
  const form = el('form', {method: 'dialog'}, el('p', {}, text), row(
      submit('Keep', '', {autofocus: true, class: 'quiet'}), submit(word, 'yes', {class: 'danger'})));
  return await openDialog(title, form) === 'yes';
}

// One line of text; '' when it was closed.
export async function ask(title, label, value) {
  const field = el('input', {type: 'text', maxlength: 200, autofocus: true, autocomplete: 'off', value});
  const form = el('form', {method: 'dialog'}, el('label', {}, label, field), row(submit('Save', 'yes')));
  const answer = openDialog(title, form);
  field.select();
  return await answer === 'yes' ? field.value.trim() : '';
}

// The API key: {key, keep}, or null when it was closed.
export async function askForKey(wrong) {
  const field = el('input', {type: 'password', autofocus: true, autocomplete: 'off', required: true, spellcheck: 'false'});
  const keep = el('input', {type: 'checkbox'});
  const form = el('form', {method: 'dialog'},
      el('p', {}, wrong ? 'The server did not take this key.' : 'This server asks for a key.'),
      el('label', {}, 'API key', field),
      el('label', {class: 'check'}, keep, ' Keep it until this tab is closed'),
      row(submit('Unlock', 'yes')));
  return await openDialog('Key', form) === 'yes' ? {key: field.value.trim(), keep: keep.checked} : null;
}
