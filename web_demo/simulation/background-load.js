// Simulated listeners: each has its own WebSocket and requests utterances one after another.  Their audio is measured
// and dropped.

import { PlayoutLedger } from "../audio/playout.js";
import { afterMs, SpeechClient } from "../protocol/client.js";
import { seededRandom } from "./seeded-random.js";

const ARRIVAL_INTERVAL_MS = 40; // real listeners do not connect at the same moment
const RETRY_S = 5; // without a Retry-After: a page cannot read the headers of an HTTP 503 for a WebSocket
const MAX_KEPT = 2000; // utterances, for the percentile

export class BackgroundLoad {
  #options;
  #texts;
  #schedule;
  #random;
  #listeners = [];
  #refused = 0;
  #finished = 0;
  #failed = 0;
  #underrunsMs = [];
  #measured = 0; // utterances with more than one packet: continuity does not apply to the others
  #ok = 0;
  #retryAfterS = null;

  /** `texts` are spoken in rotation.  `token`, `openSocket`, `nowS` and `schedule` are SpeechClient's. */
  constructor({
    url,
    texts,
    token = null,
    openSocket,
    nowS = () => performance.now() / 1000,
    schedule = afterMs,
    config = {},
    seed = 1,
  }) {
    if (texts.length === 0) throw new RangeError("background load needs at least one text");
    this.#texts = texts;
    this.#schedule = schedule;
    this.#random = seededRandom(seed);
    this.#options = { url, token, openSocket, nowS, schedule, config };
  }

  /** Change the number of listeners to `n`. */
  start(n) {
    if (!(Number.isInteger(n) && n >= 0)) throw new RangeError(`the number of listeners must be a positive integer or 0, got ${n}`);
    for (const listener of this.#listeners.splice(n)) listener.stop();
    for (let i = 0; this.#listeners.length < n; i++) {
      const listener = new SimulatedListener(this.#options, this.#nextText(this.#listeners.length), this);
      this.#listeners.push(listener);
      listener.begin(i * ARRIVAL_INTERVAL_MS);
    }
  }

  /** Close every WebSocket and timer.  The figures stay. */
  stop() {
    this.start(0);
  }

  figures() {
    const count = (state) => this.#listeners.filter((listener) => listener.state === state).length;
    const sorted = [...this.#underrunsMs].sort((a, b) => a - b);
    return {
      asked: this.#listeners.length,
      speaking: count("speaking"),
      waiting: count("waiting"),
      refused: this.#refused,
      finished: this.#finished,
      failed: this.#failed,
      underrun_p95_ms: sorted.length === 0 ? null : sorted[Math.ceil(0.95 * sorted.length) - 1],
      ok_share: this.#measured === 0 ? null : this.#ok / this.#measured,
      retry_after_s: this.#retryAfterS,
    };
  }

  // -- Called by the listeners -------

  addFinished(report) {
    this.#finished += 1;
    this.#underrunsMs.push(1000 * report.max_underrun_s);
    if (this.#underrunsMs.length > MAX_KEPT) this.#underrunsMs.shift();
    if (report.continuity_ok === null) return;
    this.#measured += 1;
    if (report.continuity_ok) this.#ok += 1;
  }

  addFailed() {
    this.#failed += 1;
  }

  /** Returns the delay of the next attempt in ms. */
  addRefused(retryAfterS) {
    this.#refused += 1;
    this.#retryAfterS = retryAfterS ?? RETRY_S;
    return 1000 * this.#retryAfterS * (1 + 0.5 * this.#random()); // so that not all retry at once
  }

  #nextText(first) {
    let next = first;
    return () => this.#texts[next++ % this.#texts.length];
  }
}

/** States: "waiting" (for the WebSocket, or for a retry), "speaking" (from the request to the end of playback). */
class SimulatedListener {
  state = "waiting";
  #client;
  #config;
  #nextText;
  #load;
  #nowS;
  #schedule;
  #cancelTimer = () => {};
  #ledger = null;
  #retryAfterS = null;
  #inFlight = false; // an utterance was requested and has not ended
  #sentenceFailed = false;
  #isFinal = false; // the error will recur, such as an invalid API key

  constructor({ config, ...options }, nextText, load) {
    this.#client = new SpeechClient(options);
    this.#config = config;
    this.#nextText = nextText;
    this.#load = load;
    this.#nowS = options.nowS;
    this.#schedule = options.schedule;
    this.#client
      .on("audio", (packet) => this.#onAudio(packet))
      .on("session.done", () => this.#onDone())
      .on("error", (message) => this.#onError(message))
      .on("closed", (event) => this.#onClosed(event));
  }

  begin(afterDelayMs) {
    this.state = "waiting";
    this.#cancelTimer();
    this.#cancelTimer = this.#schedule(afterDelayMs, () => this.#speak());
  }

  stop() {
    this.#cancelTimer();
    this.#client.close();
  }

  async #speak() {
    this.#ledger = new PlayoutLedger();
    this.#retryAfterS = null;
    this.#sentenceFailed = false;
    this.#isFinal = false;
    if (!this.#client.isOpen && !(await this.#client.connect({ ...this.#config, response_format: "pcm" }))) return;
    this.state = "speaking";
    this.#client.sendText(this.#nextText());
    this.#client.done();
    this.#inFlight = true;
  }

  #onAudio({ bytes, start, arrived_at_s }) {
    this.#ledger.record({ arrived_at_s, duration_s: bytes.byteLength / 2 / start.sample_rate });
  }

  #onDone() {
    const ledger = this.#ledger;
    this.#inFlight = false;
    if (ledger.playout_end_s === null) {
      this.#fail();
      return;
    }
    if (this.#sentenceFailed) this.#load.addFailed();
    else this.#load.addFinished(ledger.report());
    this.#cancelTimer = this.#schedule(1000 * Math.max(0, ledger.playout_end_s - this.#nowS()), () => this.#speak());
  }

  #onError({ code, retry_after_ms, fatal, retryable, sentence_index }) {
    if (typeof retry_after_ms === "number") this.#retryAfterS = retry_after_ms / 1000;
    if (fatal) this.#isFinal = retryable === false; // a close follows
    else if ((sentence_index ?? null) !== null) this.#sentenceFailed = true; // the others continue
    else if (code === "overloaded" || code === "quota_exceeded") this.#retry();
    else this.#fail();
  }

  #onClosed({ opened, code }) {
    // A page cannot read the status of a refused WebSocket: one that never opened was probably refused.
    if (this.#isFinal) this.#fail();
    else if (!opened || code === 1013 || this.#retryAfterS !== null) this.#retry();
    else if (this.#inFlight) this.#fail();
    else this.#beginLater();
  }

  #retry() {
    this.#inFlight = false;
    this.#client.close(); // or it would reconnect by itself
    this.begin(this.#load.addRefused(this.#retryAfterS));
  }

  #fail() {
    this.#load.addFailed();
    this.#beginLater();
  }

  #beginLater() {
    this.#inFlight = false;
    this.#client.close();
    this.begin(1000 * RETRY_S);
  }
}
