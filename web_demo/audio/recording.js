// Recording of one utterance in the page's memory, for saving.

const MAX_BYTES = 64 * 1024 * 1024; // 23 minutes at 24 kHz

export class Recording {
  sampleRateHz;
  /** Int16Arrays, in order. */
  chunks = [];
  /** Whether the end was dropped. */
  truncated = false;
  #bytes = 0;
  #maxBytes;

  constructor(sampleRateHz, maxBytes = MAX_BYTES) {
    this.sampleRateHz = sampleRateHz;
    this.#maxBytes = maxBytes;
  }

  /** Copies the samples: their memory may be transferred to another thread. */
  add(samples) {
    const room = Math.floor((this.#maxBytes - this.#bytes) / 2);
    if (samples.length > room) this.truncated = true;
    const kept = samples.slice(0, room);
    if (kept.length === 0) return;
    this.chunks.push(kept);
    this.#bytes += kept.byteLength;
  }
}
