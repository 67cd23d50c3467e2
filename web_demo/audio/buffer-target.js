// Adaptive target depth of the jitter buffer: small on a stable network, larger after late packets.
//
// An underrun raises the target by the lateness of its packet: with that much more audio the wait would have been
// inaudible.  The target decays late and slowly, because jitter recurs.  It is kept from utterance to utterance.

const MARGIN_MS = 20; // playback begins with whole packets, so by chance one packet above the target may be buffered
const STABLE_AFTER_S = 30; // of playback without an underrun before the decay: rare delays recur
const DECAY_MS_PER_S = 5; // from the largest target to the smallest in 84 s

export class AdaptiveBufferTarget {
  #minMs;
  #maxMs;
  #ms;
  #stableS = 0;

  constructor({ minMs = 60, maxMs = 480 } = {}) {
    if (!(minMs >= 0 && maxMs >= minMs)) throw new RangeError(`a buffer target cannot range from ${minMs} to ${maxMs} ms`);
    this.#minMs = minMs;
    this.#maxMs = maxMs;
    this.#ms = minMs;
  }

  get ms() {
    return this.#ms;
  }

  /** The buffer was empty for `lateMs` before the next packet arrived. */
  recordUnderrun(lateMs) {
    this.#ms = Math.min(this.#maxMs, this.#ms + lateMs + MARGIN_MS);
    this.#stableS = 0;
  }

  recordPlayback(playedMs) {
    const beforeS = this.#stableS;
    this.#stableS += playedMs / 1000;
    const decayS = this.#stableS - Math.max(beforeS, STABLE_AFTER_S);
    if (decayS > 0) this.#ms = Math.max(this.#minMs, this.#ms - DECAY_MS_PER_S * decayS);
  }
}
