// When did what happen on the way from a press to the first sound?  The rows of the page's waterfall.

/** In the order in which they follow each other. */
export const MARKS = [
  "asked",
  "connected",
  "first_token_sent",
  "sentence_closed",
  "work_begun",
  "first_packet",
  "first_audible",
];

export class LatencyMarks {
  #atMs = new Map();

  /** The first time counts; later calls with the same name change nothing.  Times are of one clock. */
  mark(name, atMs) {
    if (!MARKS.includes(name)) throw new RangeError(`there is no mark ${name}`);
    if (!this.#atMs.has(name)) this.#atMs.set(name, atMs);
  }

  /**
   * What the server told of the first sentence, in `audio.done.metrics`, put on our clock: its `ttfp_ms` runs from when
   * the sentence's text was complete to its first packet, which we saw.  So the two rows leave the network out.
   */
  fromServer({ ttfp_ms, queue_ms }) {
    const firstPacketMs = this.#atMs.get("first_packet");
    if (firstPacketMs === undefined || typeof ttfp_ms !== "number") return;
    const closedMs = firstPacketMs - ttfp_ms;
    this.mark("sentence_closed", closedMs);
    if (typeof queue_ms === "number") this.mark("work_begun", Math.min(closedMs + queue_ms, firstPacketMs));
  }

  /** [{name, at_ms, took_ms}] from "asked" on, in the order of the marks; those that did not happen are left out. */
  rows() {
    const startMs = this.#atMs.get("asked");
    if (startMs === undefined) return [];
    let beforeMs = startMs;
    return MARKS.filter((name) => this.#atMs.has(name)).map((name) => {
      const atMs = Math.max(beforeMs, this.#atMs.get(name)); // two clocks may disagree by a little: no step goes back
      const row = { name, at_ms: atMs - startMs, took_ms: atMs - beforeMs };
      beforeMs = atMs;
      return row;
    });
  }
}
