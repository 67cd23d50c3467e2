// A bad line, on purpose: jitter and loss as a WebSocket shows them.
//
// TCP loses nothing and keeps the order.  A lost segment comes again after a retransmission timeout, and everything
// behind it waits for it: what a listener meets is delay, in bursts.  The same seed gives the same weather.

import { afterMs } from "../protocol/client.js";
import { seeded } from "./seeded-random.js";

const SEGMENT_BYTES = 1460; // Ethernet's 1500, less the headers of IPv4 and TCP
const FIRST_TIMEOUT_MS = 200; // Linux's least; RFC 6298 would have 1 s
const MAX_TRIES = 6; // 200, 400, 800, … ms: beyond that a real connection is as good as gone

export class BadNetwork {
  /** Called with each frame when it comes out, and whether it was held back. */
  deliver;
  #jitterMs;
  #lossPercent;
  #random;
  #schedule;
  #nowMs;
  #held = []; // {frame, dueMs}, oldest first
  #callOff = () => {};

  /** `schedule(ms, callback)` returns what calls it off. */
  constructor({
    jitterMs = 0,
    lossPercent = 0,
    seed = 1,
    deliver = () => {},
    schedule = afterMs,
    nowMs = () => performance.now(),
  } = {}) {
    this.jitterMs = jitterMs;
    this.lossPercent = lossPercent;
    this.deliver = deliver;
    this.#random = seeded(seed);
    this.#schedule = schedule;
    this.#nowMs = nowMs;
  }

  /** Each frame is late by 0 to this, evenly. */
  get jitterMs() {
    return this.#jitterMs;
  }

  set jitterMs(ms) {
    if (!(ms >= 0 && ms <= 10_000)) throw new RangeError(`jitter must be 0 to 10000 ms, got ${ms}`);
    this.#jitterMs = ms;
  }

  /** How many in a hundred segments are lost on the way. */
  get lossPercent() {
    return this.#lossPercent;
  }

  set lossPercent(percent) {
    if (!(percent >= 0 && percent <= 100)) throw new RangeError(`loss must be 0 to 100 %, got ${percent}`);
    this.#lossPercent = percent;
  }

  push(frame, bytes = 1) {
    const nowMs = this.#nowMs();
    const lateMs = this.#random() * this.#jitterMs + this.#lossDelayMs(bytes);
    if (lateMs === 0 && this.#held.length === 0) {
      this.deliver(frame, false);
      return;
    }
    this.#held.push({ frame, dueMs: nowMs + lateMs }); // and never before what was sent before it
    if (this.#held.length === 1) this.#wait();
  }

  /** Forget what is on its way. */
  clear() {
    this.#held.length = 0;
    this.#callOff();
  }

  #lossDelayMs(bytes) {
    let worstMs = 0;
    for (let segment = 0; segment < Math.ceil(bytes / SEGMENT_BYTES); segment++) {
      let delayMs = 0;
      for (let timeoutMs = FIRST_TIMEOUT_MS, tries = 1; tries <= MAX_TRIES && this.#isLost(); timeoutMs *= 2, tries++) {
        delayMs += timeoutMs;
      }
      worstMs = Math.max(worstMs, delayMs);
    }
    return worstMs;
  }

  #isLost() {
    return this.#random() * 100 < this.#lossPercent;
  }

  #wait() {
    this.#callOff();
    this.#callOff = this.#schedule(Math.max(0, this.#held[0].dueMs - this.#nowMs()), () => this.#release());
  }

  #release() {
    const nowMs = this.#nowMs();
    try {
      while (this.#held.length > 0 && this.#held[0].dueMs <= nowMs) this.deliver(this.#held.shift().frame, true);
    } finally {
      if (this.#held.length > 0) this.#wait(); // whatever a listener threw
    }
  }
}
