// When would the listener run out of audio?  The mirror of realtime_tts/audio/playout.py, held to it by shared vectors.
//
// This is what the *network and the server* did, for a player that starts with the first packet.  What was really
// heard, with the jitter buffer in between, is counted by jitter-buffer.js.

const RESOLUTION_S = 1e-9; // shorter stalls are rounding

export class PlayoutLedger {
  #origin = 0; // moves with every wait for text that had not come
  #playoutEnd = null;
  #audio = 0;
  #packets = 0;
  #stalls = 0;
  #stalled = 0;
  #maxStall = 0;
  #maxDeficit = 0;
  #starvation = 0;

  /** Note a packet; returns the seconds for which the listener had to wait for it. */
  record({ arrived_at_s, duration_s, text_starved = false }) {
    if (this.#playoutEnd === null) this.#origin = this.#playoutEnd = arrived_at_s;
    const gap = Math.max(0, arrived_at_s - this.#playoutEnd);
    if (text_starved) {
      this.#starvation += gap;
      this.#origin += gap;
    } else if (gap > RESOLUTION_S) {
      this.#stalls += 1;
      this.#stalled += gap;
      this.#maxStall = Math.max(this.#maxStall, gap);
    }
    this.#maxDeficit = Math.max(this.#maxDeficit, arrived_at_s - this.#origin - this.#audio);
    this.#playoutEnd = Math.max(this.#playoutEnd, arrived_at_s) + duration_s;
    this.#audio += duration_s;
    this.#packets += 1;
    return gap;
  }

  /** `continuity_ok` is null for a single packet, which has no continuity to speak of; false where nothing came. */
  report(thresholdS = 0.1) {
    return {
      packets: this.#packets,
      audio_s: this.#audio,
      underrun_count: this.#stalls,
      underrun_total_s: this.#stalled,
      max_stall_s: this.#maxStall,
      max_underrun_s: this.#maxDeficit,
      text_starvation_s: this.#starvation,
      continuity_ok: this.#packets === 0 ? false : this.#packets === 1 ? null : this.#maxDeficit <= thresholdS,
    };
  }
}
