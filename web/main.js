// Wiring: which event of which part leads to which call of another.

import {Api, ApiError} from './api.js';
import {Composer} from './composer.js';
import {Connection} from './connection.js';
import {Conversation} from './conversation.js';
import {askForKey} from './dialogs.js';
import {announce, byId, copyText, isTouch, throttled} from './dom.js';
import {plural} from './format.js';
import {listenToKeys, showKeys} from './keys.js';
import {statesOf} from './memory.js';
import {openMemoryTable} from './memory_table.js';
import {Panel} from './panel.js';
import {Sidebar} from './sidebar.js';
import {startTheme} from './theme.js';
import {Tideline, numberLine} from './tideline.js';
import {Transcript} from './transcript.js';

const kRateMs = 250;

const api = new Api();
const connection = new Connection(api);
const panel = new Panel(api);
const composer = new Composer();
const sidebar = new Sidebar(api);
const tideline = new Tideline(lookUp);
let conversation = new Conversation(api, null);

const idle = () => !conversation.answering;
const actions = [
  {word: 'Copy', call: (item) => copyText(item.text), when: (item) => item.text !== ''},
  {word: 'Edit', key: 'e', call: edit, when: (item) => item.role === 'user' && item.id !== null && api.has('rewind')},
  {word: 'Again', key: 'r', call: regenerate, when: (item) => item.role === 'assistant' && item.id !== null && api.has('rewind')},
  {word: 'Continue', call: () => say('Continue.'), when: (item) => item.status === 'incomplete' && item === conversation.items.at(-1) && idle()},
  {word: 'Fork here', call: fork, when: (item) => item.id !== null && item.role === 'assistant' && api.has('fork')},
  {word: 'Pin', key: 'p', call: pin, when: (item) => canPin(item) && !isPinned(item)},
  {word: 'Unpin', key: 'p', call: pin, when: (item) => canPin(item) && isPinned(item)},
];
const transcript = new Transcript({
  actions,
  turnOf: (index) => lookUp(index).turn,
  openSource: (span) => goTo(span.from),
  switchBranch: (item) => attempt(() => conversation.switchBranch(item)),
});

const commands = {
  '/': ['search', () => sidebar.search()],
  n: ['new conversation', () => open(null)],
  j: ['next message', () => transcript.step(1)],
  k: ['message before', () => transcript.step(-1)],
  e: ['edit your message', () => onCurrent('Edit')],
  r: ['answer again', () => onCurrent('Again')],
  p: ['pin or unpin', () => onCurrent('Pin', 'Unpin')],
  m: ['memory strip', () => tideline.focus()],
  '?': ['these keys', () => showKeys(commands)],
  Escape: ['stop the answer', () => conversation.stop()],
};

// Runs what may fail because of the world outside, and says so if it does.
async function attempt(call) {
  try {
    await call();
  } catch (error) {
    connection.trouble(error);
  }
}

function lookUp(index) {
  const item = conversation.itemAt(index);
  return {item, turn: item ? transcript.turnOf(item) : null};
}

async function goTo(index) {
  announce('Looking for that place');
  const item = await conversation.reach(index);
  if (item) transcript.reveal(item);
}

function open(summary) {
  conversation.close();
  conversation = new Conversation(api, summary);
  const opened = conversation;
  panel.instructions = null;
  const here = (call) => (event) => opened === conversation && call(event);
  opened.addEventListener('memory', here(showMemory));
  opened.addEventListener('recall', here((event) => tideline.glide(event.detail)));
  opened.addEventListener('trouble', here((event) => connection.trouble(event.detail)));
  opened.addEventListener('title', here(() => {
    composer.rename(opened.id);
    showPlace();
    attempt(() => sidebar.read());
  }));
  opened.addEventListener('state', here(showState));
  opened.addEventListener('answer', here(showRate));
  byId('rate').textContent = '';
  transcript.open(opened);
  composer.open(opened.id);
  showPlace();
  showMemory();
  showState();
  if (!isTouch()) composer.focus();
  return attempt(() => opened.open());
}

function showPlace() {
  const {id, title} = conversation;
  sidebar.current = id;
  byId('title').textContent = title;
  document.title = id ? `${title} · Mooring` : 'Mooring';
  history.replaceState(null, '', id ? `#${id}` : location.pathname);
}

function showMemory() {
  const {memory} = conversation;
  tideline.set(memory);
  byId('numbers').textContent = memory && memory.log_tokens > 0 ? numberLine(memory) : '';
}

function showState() {
  composer.answering = conversation.answering;
  showRate();
  const {answer} = conversation;
  if (conversation.answering || !answer) return;
  if (answer.error) {
    connection.trouble(answer.error);
    if (answer.unheard) takeBack(answer);
  }
}

// The server never got the message: it goes back into the field, as if it had not been sent.
function takeBack(answer) {
  const at = conversation.items.indexOf(answer.item);
  const said = conversation.items[at - 1];
  if (at < 1 || said.id !== null) return;
  conversation.items = conversation.items.slice(0, at - 1);
  composer.giveBack(said.text);
}

const showRate = throttled(kRateMs, () => {
  const {answer} = conversation;
  if (!answer) return;
  const rate = answer.rate();
  const speed = rate === null ? '' : `${rate.toFixed(1)} tokens/s`;
  const state = answer.waiting ? 'waiting for a place' : answer.running && answer.tokens === 0 ? 'reading' : '';
  const count = answer.tokens > 0 ? plural(answer.tokens, 'token') : '';
  byId('rate').textContent = [state, speed, count].filter(Boolean).join(' · ');
});

function say(text) {
  connection.clear();
  return attempt(async () => {
    try {
      await conversation.send(text, panel.settings);
    } catch (error) {
      composer.giveBack(text);
      throw error;
    }
    panel.instructions = null;
    await sidebar.read();
  });
}

function edit(item) {
  if (idle()) composer.edit(item);
}

function regenerate(item) {
  if (idle()) attempt(() => conversation.regenerate(item, panel.settings));
}

function fork(item) {
  attempt(async () => {
    const made = await api.fork(conversation.id, item.id);
    await sidebar.read();
    await open(made);
    announce('Forked');
  });
}

const canPin = (item) => api.has('pin') && item.from !== null;
const isPinned = (item) => statesOf(conversation.memory, item.from, item.to)[0]?.[0] === 'pinned';

function pin(item) {
  attempt(() => conversation.pin(item.from, item.to, !isPinned(item)));
}

// The first of the named actions that the current message has; of the newest that has one, if none is current.
function onCurrent(...words) {
  const wanted = actions.filter((action) => words.includes(action.word));
  const items = transcript.current ? [transcript.current] : conversation.items.toReversed();
  for (const item of items) {
    const action = wanted.find((one) => one.when(item));
    if (action) return action.call(item);
  }
  return null;
}

composer.addEventListener('send', ({detail: {text, item}}) => {
  if (item) attempt(() => conversation.replace(item, text, panel.settings));
  else say(text);
});
composer.addEventListener('stop', () => conversation.stop());
composer.addEventListener('trouble', (event) => connection.trouble(event.detail));
sidebar.addEventListener('open', (event) => open(event.detail));
sidebar.addEventListener('trouble', (event) => connection.trouble(event.detail));
sidebar.addEventListener('removed', (event) => event.detail.id === conversation.id && open(null));
sidebar.addEventListener('renamed', (event) => {
  if (event.detail.id !== conversation.id) return;
  conversation.title = event.detail.title;
  showPlace();
});
tideline.addEventListener('go', (event) => goTo(event.detail));
transcript.addEventListener('scroll', throttled(100, () => tideline.setView(transcript.visibleRange())));
byId('open-panel').addEventListener('click', () => panel.open(conversation.instructions));
byId('open-table').addEventListener('click', () => conversation.memory && openMemoryTable(conversation.memory, lookUp));
byId('help').addEventListener('click', () => showKeys(commands));
document.addEventListener('visibilitychange', () => conversation.watch(!document.hidden));
addEventListener('hashchange', () => openFromAddress());
api.addEventListener('features', () => transcript.refresh());

let asking = null;
api.addEventListener('locked', () => {
  asking ??= askForKey(api.hasKey).then((answer) => {
    asking = null;
    if (!answer) return;
    api.setKey(answer.key, answer.keep);
    start();
  });
});
connection.addEventListener('back', () => start());

async function openFromAddress(hash = location.hash) {
  const id = decodeURIComponent(hash.slice(1));
  if (id !== '' && id !== conversation.id) await attempt(async () => open(await api.conversation(id)));
}

// Everything that is read from the server; called again when it comes back or lets us in.
async function start() {
  try {
    const [all] = await Promise.all([sidebar.read(), panel.read(), api.probe()]);
    if (conversation.id) await conversation.open();
    else if (askedFor.length > 1) await openFromAddress(askedFor);
    else if (all.length > 0 && byId('composer-text').value === '') await open(all[0]);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 401)) connection.trouble(error);
  }
}

const askedFor = location.hash;
startTheme(() => tideline.draw());
listenToKeys(commands);
open(null);
start();
