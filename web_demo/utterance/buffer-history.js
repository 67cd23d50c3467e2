// What the continuity strip shows, as data: how much speech lay ready when, packets, and waits.  No DOM.

const MAX_SAMPLES = 12000; // ten minutes at 20 a second

export class Trace {
  #samples = []; // {atS, depthS, cushionS, wait}: wait is null, "gap" or "text"
  #packets = []; // atS
  #counts = { underruns: 0, text_starvation_ms: 0 };

  clear() {
    this.#samples = [];
    this.#packets = [];
  }

  packet(atS) {
    this.#packets.push(atS);
    if (this.#packets.length > MAX_SAMPLES) this.#packets.shift();
  }

  depth({ atS, depthS, cushionS, wait }) {
    this.#samples.push({ atS, depthS, cushionS, wait });
    if (this.#samples.length > MAX_SAMPLES) this.#samples.shift();
  }

  /** The player's counts: a wait that they have grown by is over, and now it is known what it was. */
  note({ underruns, text_starvation_ms }) {
    const last = this.#counts;
    this.#counts = { underruns, text_starvation_ms };
    const was = underruns > last.underruns ? "gap" : text_starvation_ms > last.text_starvation_ms ? "text" : null;
    if (was === null) return;
    for (let i = this.#samples.length - 1; i >= 0 && this.#samples[i].wait !== null; i--) this.#samples[i].wait = was;
  }

  get samples() {
    return this.#samples;
  }

  get packets() {
    return this.#packets;
  }

  /** Where it begins and ends, in seconds; null while there is nothing. */
  get extentS() {
    const firstS = Math.min(this.#samples[0]?.atS ?? Infinity, this.#packets[0] ?? Infinity);
    const lastS = Math.max(this.#samples.at(-1)?.atS ?? -Infinity, this.#packets.at(-1) ?? -Infinity);
    return firstS <= lastS ? [firstS, lastS] : null;
  }

  /** The greatest depth since `fromS`. */
  deepestS(fromS) {
    let deepest = 0;
    for (let i = this.#samples.length - 1; i >= 0 && this.#samples[i].atS >= fromS; i--) {
      deepest = Math.max(deepest, this.#samples[i].depthS);
    }
    return deepest;
  }

  /** The waits of one kind: [fromS, toS], from the last sample before each to the last one within it. */
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

/** Note a speaker's snapshot. */
export function traceStats(trace, { buffered_ms, cushion_ms, gap_open_ms, text_wait_ms, underruns, text_starvation_ms }, atS = performance.now() / 1000) {
  trace.note({ underruns, text_starvation_ms });
  const wait = gap_open_ms > 0 ? "gap" : text_wait_ms > 0 ? "text" : null;
  trace.depth({ atS, depthS: buffered_ms / 1000, cushionS: cushion_ms / 1000, wait });
}
