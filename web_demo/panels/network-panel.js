// Network panel: simulated jitter and loss, and the reaction of the jitter buffer.

import { ms } from "./display-text.js";
import { element } from "./dom.js";

export class NetworkPanel {
  #network;
  #controller;

  constructor({ network, controller }) {
    this.#network = network;
    this.#controller = controller;
    for (const id of ["jitter", "loss"]) element(id).addEventListener("input", () => this.#apply());
    this.#apply();
  }

  show() {
    const now = this.#controller.snapshot;
    element("n-target").textContent = now.buffer_target_ms > 0 ? ms(now.buffer_target_ms) : "–";
    element("n-gaps").textContent = now.underruns;
    element("n-worst").textContent = ms(now.worst_gap_ms);
    element("n-late").textContent = now.report.underrun_count;
  }

  #apply() {
    const [jitterMs, lossPercent] = [Number(element("jitter").value), Number(element("loss").value)];
    this.#network.jitterMs = jitterMs;
    this.#network.lossPercent = lossPercent;
    element("jitter-value").textContent = ms(jitterMs);
    element("loss-value").textContent = `${lossPercent} %`;
    element("tab-network").toggleAttribute("data-on", jitterMs > 0 || lossPercent > 0);
  }
}
