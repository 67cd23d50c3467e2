// Continuity panel: the buffer chart, and figures of this page beside the server's.

import { BufferHistory } from "../utterance/buffer-history.js";
import { BufferChart } from "./buffer-chart.js";
import { bitrateText, gapsText, ms, seconds, verdictText } from "./display-text.js";
import { element } from "./dom.js";

export class ContinuityPanel {
  #controller;
  #history = new BufferHistory();
  #chart;

  constructor(controller) {
    this.#controller = controller;
    this.#chart = new BufferChart(element("chart"), this.#history);
  }

  clear() {
    this.#history.clear();
    this.#chart.draw();
    this.showFigures();
  }

  addPacket() {
    this.#history.addPacket(performance.now() / 1000);
  }

  addStats() {
    this.#history.addSnapshot(this.#controller.snapshot);
  }

  set running(on) {
    this.#chart.running = on;
  }

  showFigures() {
    const now = this.#controller.snapshot;
    const { report, server_report: server } = now;
    element("verdict").textContent = gapsText(now);
    element("verdict").dataset.state = now.played_ms === 0 ? "idle" : now.underruns > 0 ? "bad" : "good";
    element("verdict-note").textContent = verdictText(now);
    const received = report.packets > 0;
    element("c-first").textContent = ms(now.ttfp_ms);
    element("s-first").textContent = ms(server?.ttfp_ms);
    element("c-late").textContent = received ? report.underrun_count : "–";
    element("s-late").textContent = server?.underrun_count ?? "–";
    element("c-worst").textContent = received ? ms(report.max_underrun_s * 1000) : "–";
    element("s-worst").textContent = ms(server?.max_underrun_ms);
    element("c-audio").textContent = received ? seconds(this.#controller.utterance.audioS * 1000) : "–";
    element("s-audio").textContent = server ? seconds(server.audio_ms) : "–";
    element("bitrate").textContent = now.bytes_per_s === null ? "" : bitrateText(now);
  }
}
