// Data of the buffer chart: buffered audio over time, packets, and waits.  No DOM.

const MAX_SAMPLES = 12000; // ten minutes at 20 per second

export class BufferHistory {
  #samples = []; // {atS, depthS, targetS, wait}: wait is null, "gap" or "text"
  #packets = []; // atS
  #counts = { underruns: 0, text_starvation_ms: 0 };

  clear() {
    this.#samples = [];
    this.#packets = [];
  }

  addPacket(atS) {
    this.#packets.push(atS);
    if (this.#packets.length > MAX_SAMPLES) this.#packets.shift();
  }

  /** Add a snapshot of the controller. */
  addSnapshot(snapshot, atS = performance.now() / 1000) {
    this.#relabelLastWait(snapshot);
    const { buffered_ms, buffer_target_ms, gap_open_ms, text_wait_ms } = snapshot;
    const wait = gap_open_ms > 0 ? "gap" : text_wait_ms > 0 ? "text" : null;
    this.#samples.push({ atS, depthS: buffered_ms / 1000, targetS: buffer_target_ms / 1000, wait });
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
  }

  /** The kind of a wait is known only at its end, when one of the player's counts has grown. */
  #relabelLastWait({ underruns, text_starvation_ms }) {
    const last = this.#counts;
    this.#counts = { underruns, text_starvation_ms };
    const kind = underruns > last.underruns ? "gap" : text_starvation_ms > last.text_starvation_ms ? "text" : null;
    if (kind === null) return;
    for (let i = this.#samples.length - 1; i >= 0 && this.#samples[i].wait !== null; i--) this.#samples[i].wait = kind;
  }

  get samples() {
    return this.#samples;
  }

  get packets() {
    return this.#packets;
  }

  /** [first, last] time in seconds, or null while empty. */
  get extentS() {
    const firstS = Math.min(this.#samples[0]?.atS ?? Infinity, this.#packets[0] ?? Infinity);
    const lastS = Math.max(this.#samples.at(-1)?.atS ?? -Infinity, this.#packets.at(-1) ?? -Infinity);
    return firstS <= lastS ? [firstS, lastS] : null;
  }

  /** The largest depth since `fromS`. */
  maxDepthS(fromS) {
    let max = 0;
    for (let i = this.#samples.length - 1; i >= 0 && this.#samples[i].atS >= fromS; i--) {
      max = Math.max(max, this.#samples[i].depthS);
    }
    return max;
  }

  /** The waits of one kind: [fromS, toS], from the last sample before each to its last sample. */
  waits(kind) {
    const spans = [];
    this.#samples.forEach(({ atS, wait }, i) => {
      if (wait !== kind) return;
      const previousS = i > 0 ? this.#samples[i - 1].atS : atS;
      if (spans.length > 0 && spans.at(-1)[1] === previousS) spans.at(-1)[1] = atS;
      else spans.push([previousS, atS]);
    });
    return spans;
  }
}
