// One answer while it is written: asks, waits its turn when the server is full, takes up again after
// a broken line or a reload, measures tokens per second. Events: `text`, `accepted`.

import {ApiError, OfflineError, isAbsentRoute} from './api.js';

const kRateWindowMs = 2000;
const kWaits = 5;
const kStored = 'mooring.answer';  // in this tab: what a reload has to take up again

export class Answer extends EventTarget {
  running = true;
  error = null;
  unheard = false;  // the server never got the message, or nobody knows
  waiting = false;
  tokens = 0;
  timings = null;
  recalled = [];
  finish = null;
  #api;
  #conversation;
  #responseId = null;
  #lastEventId = null;
  #abort = new AbortController();
  #arrivals = [];
  #detached = false;

  constructor(api, conversation, item) {
    super();
    this.#api = api;
    this.#conversation = conversation;
    this.item = item;
  }

  // The answer that this tab was reading when it was reloaded, if it was of `conversation`.
  static left(api, conversation, item) {
    const stored = JSON.parse(sessionStorage.getItem(kStored) ?? 'null');
    if (stored?.conversation !== conversation) return null;
    const answer = new Answer(api, conversation, item);
    answer.#responseId = stored.response;
    item.status = 'in_progress';
    return answer;
  }

  async ask(body) {
    for (let wait = 0;; ++wait) {
      try {
        await this.#read(this.#api.chat(body, this.#abort.signal));
        break;
      } catch (error) {
        const later = error instanceof ApiError && error.retryAfter > 0 && this.#responseId === null;
        if (!later || wait === kWaits || this.#abort.signal.aborted) {
          await this.#fail(error);
          break;
        }
        this.waiting = true;
        this.dispatchEvent(new Event('text'));
        await new Promise((done) => setTimeout(done, error.retryAfter * 1000));
        this.waiting = false;
      }
    }
    this.#end();
  }

  async resume() {
    await this.#takeUp();
    this.#end();
  }

  // Tokens per second over the last moments; null before there is anything to measure.
  rate() {
    if (this.timings) return this.timings.tokens_per_second;
    const now = performance.now();
    while (this.#arrivals.length > 2 && now - this.#arrivals[0] > kRateWindowMs) this.#arrivals.shift();
    if (this.#arrivals.length < 3) return null;
    return (this.#arrivals.length - 1) / (this.#arrivals.at(-1) - this.#arrivals[0]) * 1000;
  }

  stop() {
    if (!this.running) return;
    const kept = this.#responseId !== null && this.#api.has('background') && this.#api.has('cancel');
    if (!kept) {
      this.#abort.abort();
      return;
    }
    // It would go on without us: it has to be told, and then ends its stream itself.
    this.#api.cancel(this.#responseId).catch((error) => {
      if (error instanceof ApiError && isAbsentRoute(error)) this.#api.drop('cancel');
      this.#abort.abort();
    });
  }

  // Stops listening without stopping the answer, where the server lets it go on.
  detach() {
    this.#detached = true;
    this.#abort.abort();
  }

  async #read(chunks) {
    for await (const chunk of chunks) {
      if (this.#responseId === null || chunk.id !== this.#responseId) this.#accepted(chunk.id);
      this.#lastEventId = chunk.eventId ?? this.#lastEventId;
      const choice = chunk.choices?.[0];
      const text = choice?.delta?.content;
      if (text) {
        this.item.text += text;
        this.tokens += 1;
        this.#arrivals.push(performance.now());
      }
      if (choice?.finish_reason) this.finish = choice.finish_reason;
      if (chunk.mooring) {
        this.timings = chunk.mooring.timings ?? null;
        this.recalled = chunk.mooring.recalled ?? [];
        this.item.recalled = this.recalled;
      }
      if (text || choice?.finish_reason) this.dispatchEvent(new Event('text'));
    }
    this.item.status = this.finish === 'stop' ? 'completed' : 'incomplete';
  }

  #accepted(responseId) {
    this.#responseId = responseId;
    if (this.#api.has('background')) {
      sessionStorage.setItem(
          kStored, JSON.stringify({conversation: this.#conversation, response: responseId}));
    }
    this.dispatchEvent(new Event('accepted'));
  }

  async #fail(error) {
    this.item.status = 'incomplete';
    if (this.#abort.signal.aborted) return;
    const broken = error instanceof OfflineError && this.#responseId !== null;
    if (broken && this.#api.has('background')) {
      await this.#takeUp();
      return;
    }
    this.unheard = this.#responseId === null;
    this.error = broken ? new Error('The connection broke. What arrived is kept.') : error;
  }

  // Reads on where the stream broke, as soon as the server answers.
  async #takeUp() {
    this.item.status = 'in_progress';
    for (let wait = 1; wait <= 32 && !this.#abort.signal.aborted; wait *= 2) {
      try {
        await this.#read(this.#api.resume(this.#responseId, this.#lastEventId, this.#abort.signal));
        return;
      } catch (error) {
        // A buffer that is gone is no fault: the items tell what became of the answer.
        if (!(error instanceof OfflineError)) break;
        await new Promise((done) => setTimeout(done, wait * 1000));
      }
    }
    this.item.status = 'incomplete';
  }

  #end() {
    this.running = false;
    if (!this.#detached) sessionStorage.removeItem(kStored);
  }
}
