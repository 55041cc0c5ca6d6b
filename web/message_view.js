// The element of one message, and how it is brought up to date while an answer grows.

import {button, el} from './dom.js';
import {excerpt, whole} from './format.js';
import {closedLength, render} from './markdown.js';
import {inView, kStates, statesOf, wordOf} from './memory.js';

const kMarks = 2;  // as many states as a margin has room for
const kNames = {user: 'You', assistant: 'Mooring', system: 'Instructions'};

export const nameOf = (item) => kNames[item.role] ?? item.role;

// What may be done to a message stands in `actions`: [{word, key, call(item), when(item)}].
// `old`: the element before, whose text is taken over. `turnOf(index)` names the turn of a log index, null where it is not loaded.
export function messageView(item, {memory, turn, actions, turnOf, openSource, switchBranch, old}) {
  const states = statesOf(memory, item.from, item.to);
  const state = states[0]?.[0] ?? null;
  let body = old?.querySelector('.body');
  if (!body || body.shows !== item.text) {  // parsing it is most of the work
    body = el('div', {class: 'body'});
    if (item.role === 'assistant') grow(body, item);
    else body.append(el('div', {class: 'as-written'}, item.text));
    if (item.status !== 'in_progress') body.shows = item.text;
  }

  return el('article', {
    class: ['message', item.role, state && `state-${state}`, item.status].filter(Boolean).join(' '),
    tabindex: -1, 'aria-label': spokenName(item, turn, states), 'data-key': item.key,
  },
  el('header', {},
      el('h2', {class: 'who'}, nameOf(item), turn === null ? null : el('span', {class: 'turn'}, whole(turn)),
          states.slice(0, kMarks).map(([name], i) => stateMark(name, i > 0))),
      branches(item, switchBranch)),
  body,
  el('footer', {},
      notes(item),
      chips(item, turnOf, openSource),
      el('div', {class: 'actions', role: 'group', 'aria-label': 'Message'},
          actions.filter((action) => action.when(item)).map((action) =>
            button(action.word, () => action.call(item), action.key ? {title: `${action.word} (${action.key})`} : {})))));
}

function stateMark(state, partly) {
  return el('span', {class: `state mark-${state}`},
      el('span', {class: 'sign', 'aria-hidden': 'true'}, kStates[state]?.sign ?? ''), partly ? 'partly ' : '', wordOf(state));
}

// "You, turn 812, recent, partly recalled"
function spokenName(item, turn, states) {
  const marks = states.slice(0, kMarks).map(([state], i) => (i > 0 ? 'partly ' : '') + wordOf(state));
  return [nameOf(item), turn === null ? null : `turn ${whole(turn)}`, ...marks].filter(Boolean).join(', ');
}

function branches(item, switchBranch) {
  if (item.branches.length < 2) return null;
  const at = item.branches.indexOf(item.id);
  const arrow = (sign, word, step) => button(sign, () => switchBranch(item.branches[at + step]), {
    'aria-label': `${word} version`, disabled: item.branches[at + step] === undefined,
  });
  return el('div', {class: 'branches', role: 'group', 'aria-label': 'Versions of this message'},
      arrow('‹', 'Earlier', -1), el('span', {}, `${at + 1} of ${item.branches.length}`), arrow('›', 'Later', 1));
}

function notes(item) {
  if (item.role !== 'assistant' || item.status !== 'incomplete') return null;
  return el('p', {class: 'note'}, 'Ends here: stopped, or at its longest.');
}

function chips(item, turnOf, openSource) {
  const seen = new Set();
  const made = [];
  for (const span of item.recalled) {
    const turn = span.turn ?? turnOf(span.from);
    const words = turn === null ? `token ${whole(span.from)}` : `turn ${whole(turn)}`;
    if (seen.has(words)) continue;
    seen.add(words);
    made.push(button([el('span', {class: 'sign', 'aria-hidden': 'true'}, '◆'), ` remembered from ${words}`],
        () => openSource(span), {class: 'chip'}));
  }
  return made.length > 0 ? el('div', {class: 'chips'}, made) : null;
}

// Brings `body` to the text of `item`. Paragraphs that are closed stay as they are; only the open one
// is parsed again, until the answer is whole.
export function grow(body, item) {
  const running = item.status === 'in_progress';
  if (!running) {
    body.replaceChildren(render(item.text));
    body.closed = 0;
    return;
  }
  const closed = closedLength(item.text);
  let open = body.querySelector(':scope > .open');
  if (!open) {
    open = el('div', {class: 'open'});
    body.replaceChildren(open);
    body.closed = 0;
  }
  if (closed > body.closed) {
    open.before(render(item.text.slice(body.closed, closed)));
    body.closed = closed;
  }
  open.replaceChildren(render(item.text.slice(closed)));
}

// What a screen reader or a table says of a message in few words.
export const summaryOf = (item) => `${nameOf(item)}: ${excerpt(item.text, 90)}`;

export const isInView = (memory, item) => {
  const [first] = statesOf(memory, item.from, item.to);
  return first !== undefined && inView(first[0]);
};
