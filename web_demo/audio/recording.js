// Keeps what was spoken, in the page's memory, so that it can be saved.

const MOST_BYTES = 64 * 1024 * 1024; // 23 minutes at 24 kHz; a page must not grow for ever

export class Recording {
  sampleRateHz;
  /** Int16Array each, in order. */
  chunks = [];
  /** Whether there was more than is kept. */
  truncated = false;
  #bytes = 0;
  #mostBytes;

  constructor(sampleRateHz, mostBytes = MOST_BYTES) {
    this.sampleRateHz = sampleRateHz;
    this.#mostBytes = mostBytes;
  }

  /** Copies the samples: their memory may move to another thread. */
  add(samples) {
    const room = Math.floor((this.#mostBytes - this.#bytes) / 2);
    if (samples.length > room) this.truncated = true;
    const kept = samples.slice(0, room);
    if (kept.length === 0) return;
    this.chunks.push(kept);
    this.#bytes += kept.byteLength;
  }
}
