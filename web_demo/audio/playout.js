// Playout ledger: when a listener's buffer is empty.  Mirrors realtime_tts/audio/playout.py; shared vectors test both.
//
// It measures network and server, for a player that begins with the first packet.  jitter-buffer.js counts the
// audible gaps.

const RESOLUTION_S = 1e-9; // shorter stalls are rounding errors

export class PlayoutLedger {
  #origin = 0; // moves with every wait for text
  #playoutEnd = null;
  #last = 0;
  #audio = 0;
  #packets = 0;
  #stalls = 0;
  #stalled = 0;
  #maxStall = 0;
  #maxDeficit = 0;
  #starvation = 0;

  /** When the buffer is empty, on the clock of the arrivals; null before the first packet. */
  get playout_end_s() {
    return this.#playoutEnd;
  }

  /**
   * Record a packet; returns the seconds that the listener waited for it.  Throws RangeError if the time is before
   * the last packet's, the duration is negative, or either is not finite.
   */
  record({ arrived_at_s, duration_s, text_starved = false }) {
    if (!(Number.isFinite(duration_s) && duration_s >= 0)) throw new RangeError(`a packet cannot last ${duration_s} s`);
    if (!Number.isFinite(arrived_at_s)) throw new RangeError(`a packet cannot arrive at ${arrived_at_s} s`);
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

  /** `continuity_ok` is null for a single packet, where it does not apply, and false without a packet. */
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
