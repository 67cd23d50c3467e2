// How much sound to wait for before playing: little on a calm line, more where the sound has come late before.
//
// It grows by what was missed: with so much more at the start, that wait would not have been heard.  It fades late and
// slowly, since jitter comes back.  One cushion serves utterance after utterance, as the line stays the same.

const MARGIN_MS = 20; // playing begins with whole packets: up to one more than the cushion, which luck must not hide
const CALM_AFTER_S = 30; // of playing without a gap: what comes once in half a minute comes again
const FADE_MS_PER_S = 5; // from then on: from the greatest cushion to the smallest in a minute and a half

export class AdaptiveCushion {
  #leastMs;
  #mostMs;
  #ms;
  #calmS = 0;

  constructor({ leastMs = 60, mostMs = 480 } = {}) {
    if (!(leastMs >= 0 && mostMs >= leastMs)) throw new RangeError(`a cushion cannot be from ${leastMs} to ${mostMs} ms`);
    this.#leastMs = leastMs;
    this.#mostMs = mostMs;
    this.#ms = leastMs;
  }

  get ms() {
    return this.#ms;
  }

  /** The listener ran dry, and the sound came `lateMs` after that. */
  underrun(lateMs) {
    this.#ms = Math.min(this.#mostMs, this.#ms + lateMs + MARGIN_MS);
    this.#calmS = 0;
  }

  /** So much was played without a gap. */
  calm(playedMs) {
    const beforeS = this.#calmS;
    this.#calmS += playedMs / 1000;
    const fadingS = this.#calmS - Math.max(beforeS, CALM_AFTER_S);
    if (fadingS > 0) this.#ms = Math.max(this.#leastMs, this.#ms - FADE_MS_PER_S * fadingS);
  }
}
