// The HTTP interface, and nothing else knows its routes or shapes. A route that the server does not
// have switches its feature off (`has`), so that the page hides it instead of failing.

import {readEvents} from './event_stream.js';

// Ids of conversations are 26 characters after the prefix. None is ever all zeros, so that asking
// for it tells an absent route from an absent conversation, and changes nothing.
const kNobody = `conv_${'0'.repeat(26)}`;
const kProbes = {
  fork: ['POST', 'fork'],
  rewind: ['POST', 'rewind'],
  pin: ['POST', 'pin'],
  export: ['GET', 'export'],
  memory: ['GET', 'memory'],
};
const kPageItems = 100;

export class ApiError extends Error {
  constructor(status, error, retryAfter) {
    super(error?.message ?? `The server answered ${status}.`);
    this.status = status;
    this.code = error?.code ?? '';
    this.param = error?.param ?? '';
    this.retryAfter = retryAfter;
  }
}

// No answer at all: the server is away, or the network is.
export class OfflineError extends Error {
  constructor() {
    super('The server does not answer.');
  }
}

export class Api extends EventTarget {
  #key = sessionStorage.getItem('mooring.key') ?? '';
  #absent = new Set();

  get hasKey() {
    return this.#key !== '';
  }

  has(feature) {
    return !this.#absent.has(feature);
  }

  drop(feature) {
    if (this.#absent.has(feature)) return;
    this.#absent.add(feature);
    this.dispatchEvent(new Event('features'));
  }

  // The key lives in this page; only when asked to is it kept, and then until the tab closes.
  setKey(key, keep) {
    this.#key = key;
    if (keep) sessionStorage.setItem('mooring.key', key);
    else sessionStorage.removeItem('mooring.key');
  }

  async probe() {
    await Promise.all(Object.entries(kProbes).map(async ([feature, [method, leaf]]) => {
      try {
        await this.#json(method, `v1/conversations/${kNobody}/${leaf}`, method === 'POST' ? {} : null);
      } catch (error) {
        if (error instanceof ApiError && isAbsentRoute(error)) this.drop(feature);
      }
    }));
  }

  health() {
    return this.#json('GET', 'health');
  }
  async props() {
    try {
      return await this.#json('GET', 'props');
    } catch (error) {
      if (error instanceof ApiError) return {};
      throw error;
    }
  }
  async models() {
    return (await this.#json('GET', 'v1/models')).data;
  }

  // One page of the list, newest first: {conversations, more}, `after` the id of the last one known.
  async conversations(after) {
    const list = await this.#json('GET', `v1/conversations?${query({limit: 100, order: 'desc', after})}`);
    return {conversations: list.data.map(readConversation), more: Boolean(list.has_more)};
  }
  async conversation(id) {
    return readConversation(await this.#json('GET', conversationPath(id)));
  }
  async create(title) {
    return readConversation(await this.#json('POST', 'v1/conversations', {metadata: {title}}));
  }
  async rename(id, title) {
    return readConversation(await this.#json('POST', conversationPath(id), {metadata: {title}}));
  }
  remove(id) {
    return this.#json('DELETE', conversationPath(id));
  }
  // A new conversation that shares everything up to and with `item`, or all.
  async fork(id, item) {
    return readConversation(await this.#json('POST', `${conversationPath(id)}/fork`, item ? {item} : {}));
  }
  // Moves the end of the conversation to `item` (null: before the first); what came after stays
  // reachable as a branch.
  rewind(id, item) {
    return this.#json('POST', `${conversationPath(id)}/rewind`, {item});
  }
  // Moves the end to the newest end of the branch that `item` stands in.
  switchBranch(id, item) {
    return this.#json('POST', `${conversationPath(id)}/rewind`, {branch: item});
  }
  pin(id, from, to, pinned) {
    return this.#json('POST', `${conversationPath(id)}/pin`, {from, to, pinned});
  }
  async export(id) {
    return (await this.#fetch('GET', `${conversationPath(id)}/export`)).blob();
  }
  async import(file) {
    const response = await this.#fetch('POST', 'v1/conversations/import', {
      body: file, headers: {'Content-Type': 'application/octet-stream'},
    });
    return readConversation(await response.json());
  }

  // The newest items before `after`, oldest first: {items, more}.
  async items(id, after) {
    const list = await this.#json(
        'GET', `${conversationPath(id)}/items?${query({limit: kPageItems, order: 'desc', after})}`);
    return {
      items: list.data.filter((item) => item.type === 'message').map(readItem).reverse(),
      more: Boolean(list.has_more),
    };
  }
  memory(id, resolution) {
    return this.#json('GET', `${conversationPath(id)}/memory?${query({resolution})}`);
  }
  async* memoryEvents(id, signal) {
    const response = await this.#fetch('GET', `${conversationPath(id)}/memory/events`, {signal});
    for await (const event of readEvents(response)) {
      const data = parseOr(event.data, {});
      yield {...data, type: event.event ?? data.type};
    }
  }

  // Starts an answer. Yields {id, ...chunk} until `[DONE]`; throws what the server says went wrong.
  async* chat(body, signal) {
    const ask = (fields) => this.#fetch('POST', 'v1/chat/completions', {
      body: JSON.stringify(fields), headers: {'Content-Type': 'application/json'}, signal,
    });
    let response;
    if (this.has('background')) {
      try {
        response = await ask({...body, background: true});
      } catch (error) {
        if (!(error instanceof ApiError) || error.status !== 400 || error.param !== 'background') throw error;
        this.drop('background');
      }
    }
    yield* readChunks(response ?? await ask(body));
  }
  // Takes up a running answer after the event `lastEventId`.
  async* resume(responseId, lastEventId, signal) {
    const response = await this.#fetch('GET', `v1/streams/${encodeURIComponent(responseId)}`, {
      headers: lastEventId ? {'Last-Event-ID': lastEventId} : {}, signal,
    });
    yield* readChunks(response);
  }
  async cancel(responseId) {
    return this.#json('POST', `v1/cancel/${encodeURIComponent(responseId)}`, {});
  }

  async #json(method, path, body = null) {
    const response = await this.#fetch(method, path, body === null ? {} : {
      body: JSON.stringify(body), headers: {'Content-Type': 'application/json'},
    });
    return response.status === 204 ? {} : response.json();
  }

  async #fetch(method, path, {body, headers = {}, signal} = {}) {
    const key = this.#key;
    const sent = key === '' ? headers : {...headers, Authorization: `Bearer ${key}`};
    let response;
    try {
      response = await fetch(path, {method, body, headers: sent, signal, cache: 'no-store'});
    } catch (error) {
      if (error.name === 'AbortError') throw error;
      this.dispatchEvent(new Event('offline'));
      throw new OfflineError();
    }
    this.dispatchEvent(new Event('online'));
    if (response.ok) return response;
    const text = await response.text().catch(() => '');
    const error = new ApiError(
        response.status, parseOr(text, {}).error, Number(response.headers.get('Retry-After')) || 0);
    // Late refusals of an earlier key say nothing of this one.
    if (error.status === 401 && key === this.#key) this.dispatchEvent(new Event('locked'));
    throw error;
  }
}

export const isAbsentRoute = (error) =>
  error.status === 405 || error.status === 501 ||
  (error.status === 404 && (error.code === 'unknown_route' || error.code === ''));

async function* readChunks(response) {
  const events = readEvents(response);
  try {
    for (;;) {
      const {value: event, done} = await events.next().catch((error) => {
        throw error.name === 'AbortError' ? error : new OfflineError();
      });
      if (done) throw new OfflineError();  // a whole stream ends with [DONE]
      if (event.data === '[DONE]') return;
      const chunk = JSON.parse(event.data);
      if (chunk.error) throw new ApiError(500, chunk.error, 0);
      yield {...chunk, eventId: event.id};
    }
  } finally {
    events.return();
  }
}

function readConversation(json) {
  const metadata = json.metadata ?? {};
  return {
    id: json.id,
    title: metadata.title || json.title || json.name || 'Untitled',
    at: json.updated_at ?? json.created_at ?? 0,
  };
}

// `from` and `to`: the log indices of the message; null while the server has not said.
function readItem(json) {
  const own = json.mooring ?? {};
  const parts = typeof json.content === 'string' ? [{text: json.content}] : json.content ?? [];
  return {
    key: json.id,
    id: json.id,
    role: json.role,
    text: parts.map((part) => part.text ?? '').join(''),
    status: json.status ?? 'completed',
    turn: own.turn ?? null,
    from: own.from ?? null,
    to: own.to ?? null,
    recalled: own.recalled ?? [],
    branches: own.branches ?? [],
  };
}

const conversationPath = (id) => `v1/conversations/${encodeURIComponent(id)}`;

function query(fields) {
  const known = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null);
  return new URLSearchParams(known).toString();
}

function parseOr(text, otherwise) {
  try {
    return JSON.parse(text) ?? otherwise;
  } catch {
    return otherwise;
  }
}
