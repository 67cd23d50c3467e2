// When would the listener run out of audio?  The mirror of realtime_tts/audio/playout.py, held to it by shared vectors.
//
// This is what the *network and the server* did, for a player that starts with the first packet.  What was really
// heard, with the jitter buffer in between, is counted by jitter-buffer.js.

const RESOLUTION_S = 1e-9; // shorter stalls are rounding

export class PlayoutLedger {
  #origin = 0; // moves with every wait for text that had not come
  #playoutEnd = null;
  #last = 0;
  #audio = 0;
  #packets = 0;
  #stalls = 0;
  #stalled = 0;
  #maxStall = 0;
  #maxDeficit = 0;
  #starvation = 0;

  /** When the listener runs dry, on the clock of the arrivals; null before the first packet. */
  get playout_end_s() {
    return this.#playoutEnd;
  }

  /**
   * Note a packet; returns the seconds for which the listener had to wait for it.  Throws RangeError where the time is
   * before the last packet's, the duration is negative, or either is not finite.
   */
  record({ arrived_at_s, duration_s, text_starved = false }) {
    if (!(Number.isFinite(duration_s) && duration_s >= 0)) throw new RangeError(`a packet cannot last ${duration_s} s`);
    if (!Number.isFinite(arrived_at_s)) throw new RangeError(`a packet cannot come at ${arrived_at_s} s`);
    if (this.#playoutEnd === null) this.#origin = this.#playoutEnd = arrived_at_s;
    else if (arrived_at_s < this.#last) {
      throw new RangeError(`a packet at ${arrived_at_s} s cannot follow one at ${this.#last} s`);
    }
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
    this.#last = arrived_at_s;
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
