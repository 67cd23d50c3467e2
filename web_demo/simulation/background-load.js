// Other listeners, as many as are asked for: each on a socket of its own, who hears one utterance to its end and then
// asks for the next.  Their sound is counted and dropped.

import { afterMs, SpeechClient } from "../protocol/client.js";
import { PlayoutLedger } from "../audio/playout.js";
import { seeded } from "./seeded-random.js";

const APART_MS = 40; // real listeners do not come in the same instant
const RETRY_S = 5; // where nothing tells when to come again: of an HTTP 503 a page sees only that there is no socket
const MOST_KEPT = 2000; // of the latest utterances, for the percentile

export class BackgroundLoad {
  #options;
  #texts;
  #schedule;
  #random;
  #streams = [];
  #refused = 0;
  #finished = 0;
  #failed = 0;
  #audioS = 0;
  #underrunsMs = [];
  #judged = 0; // utterances of more than one packet: others have no continuity to speak of
  #ok = 0;
  #retryAfterS = null;

  /** `texts` are spoken in turn.  `token`, `openSocket`, `nowS` and `schedule` are SpeechClient's. */
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
    if (texts.length === 0) throw new RangeError("background load needs a text to speak");
    this.#texts = texts;
    this.#schedule = schedule;
    this.#random = seeded(seed);
    this.#options = { url, token, openSocket, nowS, schedule, config };
  }

  /** Have `n` listeners: more come, or some leave. */
  start(n) {
    if (!(Number.isInteger(n) && n >= 0)) throw new RangeError(`there cannot be ${n} listeners`);
    for (const stream of this.#streams.splice(n)) stream.stop();
    for (let coming = 0; this.#streams.length < n; coming++) {
      const stream = new Listener(this.#options, this.#nextText(this.#streams.length), this);
      this.#streams.push(stream);
      stream.begin(coming * APART_MS);
    }
  }

  /** Everyone leaves: every socket and timer ends.  The figures stay. */
  stop() {
    this.start(0);
  }

  figures() {
    const count = (state) => this.#streams.filter((stream) => stream.state === state).length;
    const sorted = [...this.#underrunsMs].sort((a, b) => a - b);
    return {
      asked: this.#streams.length,
      speaking: count("speaking"),
      waiting: count("waiting"),
      refused: this.#refused,
      finished: this.#finished,
      failed: this.#failed,
      underrun_p95_ms: sorted.length === 0 ? null : sorted[Math.ceil(0.95 * sorted.length) - 1],
      ok_share: this.#judged === 0 ? null : this.#ok / this.#judged,
      retry_after_s: this.#retryAfterS,
      audio_s: this.#audioS,
    };
  }

  // What the listeners tell.

  heard(durationS) {
    this.#audioS += durationS;
  }

  finished(report) {
    this.#finished += 1;
    this.#underrunsMs.push(1000 * report.max_underrun_s);
    if (this.#underrunsMs.length > MOST_KEPT) this.#underrunsMs.shift();
    if (report.continuity_ok === null) return;
    this.#judged += 1;
    if (report.continuity_ok) this.#ok += 1;
  }

  failed() {
    this.#failed += 1;
  }

  /** Returns when to come again, in ms. */
  refused(retryAfterS) {
    this.#refused += 1;
    this.#retryAfterS = retryAfterS ?? RETRY_S;
    return 1000 * this.#retryAfterS * (1 + 0.5 * this.#random()); // not all at once
  }

  #nextText(first) {
    let turn = first;
    return () => this.#texts[turn++ % this.#texts.length];
  }
}

/** One of them.  States: "waiting" (for the socket, or to come again), "speaking" (asked, and heard until the end). */
class Listener {
  state = "waiting";
  #client;
  #config;
  #nextText;
  #load;
  #nowS;
  #schedule;
  #callOff = () => {};
  #ledger = null;
  #retryAfterS = null;
  #owed = false; // an utterance was asked for, and its end has not come
  #broken = false; // one of its sentences failed
  #hopeless = false; // the server will not have us, as without a valid key

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
    this.#callOff();
    this.#callOff = this.#schedule(afterDelayMs, () => this.#speak());
  }

  stop() {
    this.#callOff();
    this.#client.close();
  }

  async #speak() {
    this.#ledger = new PlayoutLedger();
    this.#retryAfterS = null;
    this.#broken = false;
    this.#hopeless = false;
    if (!this.#client.isOpen && !(await this.#client.connect({ ...this.#config, response_format: "pcm" }))) return;
    this.state = "speaking";
    this.#client.sendText(this.#nextText());
    this.#client.done();
    this.#owed = true;
  }

  #onAudio({ bytes, start, arrived_at_s }) {
    const durationS = bytes.byteLength / 2 / start.sample_rate;
    this.#ledger.record({ arrived_at_s, duration_s: durationS });
    this.#load.heard(durationS);
  }

  #onDone() {
    const ledger = this.#ledger;
    this.#owed = false;
    if (ledger.playout_end_s === null) {
      this.#giveUp();
      return;
    }
    if (this.#broken) this.#load.failed();
    else this.#load.finished(ledger.report());
    this.#callOff = this.#schedule(1000 * Math.max(0, ledger.playout_end_s - this.#nowS()), () => this.#speak());
  }

  #onError({ code, retry_after_ms, fatal, retryable, sentence_index }) {
    if (typeof retry_after_ms === "number") this.#retryAfterS = retry_after_ms / 1000;
    if (fatal) this.#hopeless = retryable === false; // and the close follows
    else if ((sentence_index ?? null) !== null) this.#broken = true; // the others go on
    else if (code === "overloaded" || code === "quota_exceeded") this.#comeAgain();
    else this.#giveUp();
  }

  #onClosed({ opened, code }) {
    // A page is not told the status of a refusal: a socket that never opened was most likely sent away.
    if (this.#hopeless) this.#giveUp();
    else if (!opened || code === 1013 || this.#retryAfterS !== null) this.#comeAgain();
    else if (this.#owed) this.#giveUp();
    else this.#rest();
  }

  #comeAgain() {
    this.#owed = false;
    this.#client.close(); // which would else come back by itself
    this.begin(this.#load.refused(this.#retryAfterS));
  }

  #giveUp() {
    this.#load.failed();
    this.#rest();
  }

  #rest() {
    this.#owed = false;
    this.#client.close();
    this.begin(1000 * RETRY_S);
  }
}
