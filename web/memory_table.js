// The strip as a table: every span of the memory view.

import {openDialog} from './dialogs.js';
import {el} from './dom.js';
import {percent, whole} from './format.js';
import {kStates, wordOf} from './memory.js';
import {summaryOf} from './message_view.js';
import {numberLine, swatch} from './tideline.js';

export function openMemoryTable(memory, lookUp) {
  const legend = el('ul', {class: 'legend'}, Object.entries(kStates).map(([state, {sign, word, says}]) =>
    el('li', {}, swatch(state),
        el('span', {class: `mark-${state}`}, `${sign} ${word}`), el('span', {class: 'says'}, says))));
  const rows = memory.spans.map((span) => {
    const {item, turn} = lookUp(span.from);
    return el('tr', {'data-from': span.from, 'data-to': span.to, 'data-state': span.state},
        el('td', {class: 'number'}, whole(span.from)), el('td', {class: 'number'}, whole(span.to)),
        el('td', {class: 'number'}, whole(span.to - span.from)),
        el('td', {class: `mark-${span.state}`}, `${kStates[span.state]?.sign ?? ''} ${wordOf(span.state)}`),
        el('td', {class: 'number'}, percent(span.share ?? 0)),
        el('td', {class: 'words'}, `${turn === null ? '' : `Turn ${whole(turn)}. `}${item ? summaryOf(item) : ''}`));
  });
  const head = (word, name) => el('th', {scope: 'col', class: name}, word);
  const heads = [
    ...['From', 'To', 'Tokens'].map((word) => head(word, 'number')), head('State'), head('Held', 'number'), head('Text', 'words'),
  ];
  return openDialog('Memory', el('div', {class: 'memory-table'},
      el('p', {class: 'lead'}, numberLine(memory)), legend,
      el('div', {class: 'table', tabindex: 0, role: 'region', 'aria-label': 'Spans'},
          el('table', {}, el('caption', {class: 'spoken'}, 'Spans of the log, oldest first'),
              el('thead', {}, el('tr', {}, heads)), el('tbody', {}, rows)))), {wide: true});
}
