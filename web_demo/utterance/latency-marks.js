// Times of the steps from the Speak button to the first audible sample: the rows of the latency panel.

/** In order. */
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

  /** Set a mark, on the page's clock.  Only the first call per name counts. */
  mark(name, atMs) {
    if (!MARKS.includes(name)) throw new RangeError(`unknown mark: ${name}`);
    if (!this.#atMs.has(name)) this.#atMs.set(name, atMs);
  }

  /**
   * Add the server's metrics of the first sentence (`audio.done.metrics`).  `ttfp_ms` is the time from the end of the
   * sentence's text to its first packet, whose arrival is known here.  So these two rows exclude the network.
   */
  fromServer({ ttfp_ms, queue_ms }) {
    const firstPacketMs = this.#atMs.get("first_packet");
    if (firstPacketMs === undefined || typeof ttfp_ms !== "number") return;
    const closedMs = firstPacketMs - ttfp_ms;
    this.mark("sentence_closed", closedMs);
    if (typeof queue_ms === "number") this.mark("work_begun", Math.min(closedMs + queue_ms, firstPacketMs));
  }

  /** [{name, at_ms, took_ms}] since "asked", in order, without marks that were not set. */
  rows() {
    const startMs = this.#atMs.get("asked");
    if (startMs === undefined) return [];
    let beforeMs = startMs;
    return MARKS.filter((name) => this.#atMs.has(name)).map((name) => {
      const atMs = Math.max(beforeMs, this.#atMs.get(name)); // two clocks may differ a little: no negative step
      const row = { name, at_ms: atMs - startMs, took_ms: atMs - beforeMs };
      beforeMs = atMs;
      return row;
    });
  }
}
