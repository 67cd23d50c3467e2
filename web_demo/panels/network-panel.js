// Sliders that make the line bad, in this page's receiving path, and what the player does against it.

import { element } from "./dom.js";
import { ms } from "./display-text.js";

export class NetworkPanel {
  #network;
  #speaker;

  constructor({ network, speaker }) {
    this.#network = network;
    this.#speaker = speaker;
    for (const id of ["jitter", "loss"]) element(id).addEventListener("input", () => this.#apply());
    this.#apply();
  }

  show() {
    const now = this.#speaker.snapshot;
    element("n-cushion").textContent = now.cushion_ms > 0 ? ms(now.cushion_ms) : "–";
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
