// Network impairment: jitter and packet loss as they affect a WebSocket.
//
// TCP keeps the order and retransmits a lost segment after a timeout, and all later data waits for it: loss appears as
// bursts of delay.  The same seed gives the same delays.

import { afterMs } from "../protocol/client.js";
import { seededRandom } from "./seeded-random.js";

const SEGMENT_BYTES = 1460; // 1500 for Ethernet, minus the IPv4 and TCP headers
const FIRST_TIMEOUT_MS = 200; // the minimum on Linux; RFC 6298 has 1 s
const MAX_TRIES = 6; // 200, 400, 800, … ms: a real connection would time out

export class ImpairedNetwork {
  /** Called with each frame, and whether it was delayed. */
  deliver;
  #jitterMs;
  #lossPercent;
  #random;
  #schedule;
  #nowMs;
  #delayed = []; // {frame, dueMs}, oldest first
  #cancelTimer = () => {};

  /** `schedule(ms, callback)` returns a function that cancels the timer. */
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
    this.#random = seededRandom(seed);
    this.#schedule = schedule;
    this.#nowMs = nowMs;
  }

  /** Each frame is delayed by 0 to this many ms, uniformly. */
  get jitterMs() {
    return this.#jitterMs;
  }

  set jitterMs(ms) {
    if (!(ms >= 0 && ms <= 10_000)) throw new RangeError(`jitter must be 0 to 10000 ms, got ${ms}`);
    this.#jitterMs = ms;
  }

  /** Percentage of segments lost. */
  get lossPercent() {
    return this.#lossPercent;
  }

  set lossPercent(percent) {
    if (!(percent >= 0 && percent <= 100)) throw new RangeError(`loss must be 0 to 100 %, got ${percent}`);
    this.#lossPercent = percent;
  }

  push(frame, bytes = 1) {
    const nowMs = this.#nowMs();
    const delayMs = this.#random() * this.#jitterMs + this.#lossDelayMs(bytes);
    if (delayMs === 0 && this.#delayed.length === 0) {
      this.deliver(frame, false);
      return;
    }
    this.#delayed.push({ frame, dueMs: nowMs + delayMs }); // and never before the frame before it
    if (this.#delayed.length === 1) this.#wait();
  }

  /** Drop the delayed frames. */
  clear() {
    this.#delayed.length = 0;
    this.#cancelTimer();
  }

  #lossDelayMs(bytes) {
    let maxMs = 0;
    for (let segment = 0; segment < Math.ceil(bytes / SEGMENT_BYTES); segment++) {
      let delayMs = 0;
      for (let timeoutMs = FIRST_TIMEOUT_MS, tries = 1; tries <= MAX_TRIES && this.#isLost(); timeoutMs *= 2, tries++) {
        delayMs += timeoutMs;
      }
      maxMs = Math.max(maxMs, delayMs);
    }
    return maxMs;
  }

  #isLost() {
    return this.#random() * 100 < this.#lossPercent;
  }

  #wait() {
    this.#cancelTimer();
    this.#cancelTimer = this.#schedule(Math.max(0, this.#delayed[0].dueMs - this.#nowMs()), () => this.#release());
  }

  #release() {
    const nowMs = this.#nowMs();
    try {
      while (this.#delayed.length > 0 && this.#delayed[0].dueMs <= nowMs) this.deliver(this.#delayed.shift().frame, true);
    } finally {
      if (this.#delayed.length > 0) this.#wait(); // also after an exception in `deliver`
    }
  }
}
