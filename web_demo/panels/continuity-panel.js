// The continuity strip and its figures: what this page heard, beside what the server measured.

import { element } from "./dom.js";
import { Strip } from "./buffer-chart.js";
import { Trace, traceStats } from "../utterance/buffer-history.js";
import { bytesInWords, gapsInWords, ms, seconds, verdictInWords } from "./display-text.js";

export class Continuity {
  #speaker;
  #trace = new Trace();
  #strip;

  constructor(speaker) {
    this.#speaker = speaker;
    this.#strip = new Strip(element("meter"), this.#trace);
  }

  clear() {
    this.#trace.clear();
    this.#strip.draw();
    this.showFigures();
  }

  packet() {
    this.#trace.packet(nowS());
  }

  stats() {
    traceStats(this.#trace, this.#speaker.snapshot);
  }

  set running(on) {
    this.#strip.running = on;
  }

  showFigures() {
    const now = this.#speaker.snapshot;
    const server = now.server_report;
    const here = now.report;
    const heard = now.played_ms > 0;
    element("verdict").textContent = gapsInWords(now);
    element("verdict").dataset.state = !heard ? "idle" : now.underruns > 0 ? "bad" : "good";
    element("verdict-note").textContent = verdictInWords(now);
    const came = here.packets > 0;
    element("c-first").textContent = ms(now.ttfp_ms);
    element("s-first").textContent = ms(server?.ttfp_ms);
    element("c-late").textContent = came ? here.underrun_count : "–";
    element("s-late").textContent = server?.underrun_count ?? "–";
    element("c-worst").textContent = came ? ms(here.max_underrun_s * 1000) : "–";
    element("s-worst").textContent = ms(server?.max_underrun_ms);
    element("c-audio").textContent = came ? seconds(this.#speaker.run.audioS * 1000) : "–";
    element("s-audio").textContent = server ? seconds(server.audio_ms) : "–";
    element("bytes").textContent = now.bytes_per_s === null ? "" : bytesInWords(now);
  }
}

function nowS() {
  return performance.now() / 1000;
}
