// What the next answers are made with: model, instructions, sampling. An empty field is the server's
// own setting. Kept on this device; what was said with it is kept by the server.

import {openDialog} from './dialogs.js';
import {byId, el} from './dom.js';

const kStored = 'mooring.settings';

// name, label, step, least, most
const kSampling = [
  ['temperature', 'Temperature', 0.05, 0, 5, 'higher is freer'],
  ['top_p', 'Top p', 0.01, 0, 1, 'share of the likely words'],
  ['top_k', 'Top k', 1, 0, 100000, 'words to choose from'],
  ['min_p', 'Min p', 0.01, 0, 1, 'least chance'],
  ['repeat_penalty', 'Repeat penalty', 0.05, 0.1, 5, 'above 1 repeats less'],
  ['max_tokens', 'Longest answer', 1, 1, 32768, 'tokens'],
  ['seed', 'Seed', 1, 0, 4294967295, 'repeats an answer'],
];

export class Panel {
  #api;
  #models = [];
  #defaults = {};
  #kept = {model: null, sampling: {}};

  constructor(api) {
    this.#api = api;
    try {
      this.#kept = {...this.#kept, ...JSON.parse(localStorage.getItem(kStored) ?? '{}')};
    } catch {
      // Somebody else's entry under our name: the server's settings stand.
    }
  }

  // Instructions wanted for the open conversation; null: as they are.
  instructions = null;

  async read() {
    const [models, props] = await Promise.all([this.#api.models(), this.#api.props()]);
    this.#models = models.map((model) => model.id);
    this.#defaults = props.sampling ?? props.default_generation_settings ?? {};
    if (!this.#models.includes(this.#kept.model)) this.#kept.model = null;
    this.#label();
  }

  // For Conversation.send.
  get settings() {
    return {
      model: this.#kept.model ?? this.#models[0], sampling: {...this.#kept.sampling},
      instructions: this.instructions,
    };
  }

  async open(instructions) {
    const model = el('select', {}, this.#models.map((id) =>
      el('option', {value: id, selected: id === this.settings.model}, id)));
    const text = el('textarea', {rows: 4, placeholder: 'None'});
    text.value = this.instructions ?? instructions;
    const fields = kSampling.map(([name, label, step, min, max, says]) => [name, el('input', {
      type: 'number', step, min, max, value: this.#kept.sampling[name] ?? null, inputmode: 'decimal',
      placeholder: this.#defaults[name] ?? 'auto', 'aria-describedby': `says-${name}`,
    }), label, says]);
    const form = el('form', {method: 'dialog'},
        el('label', {}, 'Model', model),
        el('label', {}, 'Instructions', text),
        el('fieldset', {}, el('legend', {}, 'Sampling'),
            fields.map(([name, field, label, says]) =>
              el('label', {class: 'pair'}, el('span', {}, label), field, el('span', {class: 'says', id: `says-${name}`}, says)))),
        el('p', {class: 'says'}, 'Empty fields take the settings of the server.'),
        el('div', {class: 'row'},
            el('button', {type: 'submit', value: 'yes'}, 'Use')));
    if (await openDialog('Model', form) !== 'yes') return;
    this.#kept.model = model.value || null;
    this.#kept.sampling = Object.fromEntries(
        fields.filter(([, field]) => field.value !== '').map(([name, field]) => [name, Number(field.value)]));
    this.instructions = text.value === instructions ? null : text.value;
    localStorage.setItem(kStored, JSON.stringify(this.#kept));
    this.#label();
  }

  #label() {
    byId('open-panel').textContent = this.settings.model ?? 'Model';
  }
}
