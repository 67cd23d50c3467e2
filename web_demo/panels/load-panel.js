// Other listeners beside ours, and how they fare.

import { BackgroundLoad } from "../simulation/background-load.js";
import { chosen, element, note } from "./dom.js";
import { loadInWords, ms, percent } from "./display-text.js";

const LOOK_EVERY_MS = 500;

export class LoadPanel {
  #load = null;
  #make;
  #timer = null;

  /** `make()` gives a fresh BackgroundLoad's options: {url, token, texts}. */
  constructor(make) {
    this.#make = make;
    element("load-start").addEventListener("click", () => this.#toggle());
    addEventListener("pagehide", () => this.#stop());
  }

  get isRunning() {
    return this.#timer !== null;
  }

  #toggle() {
    if (this.isRunning) {
      this.#stop();
      return;
    }
    this.#load = new BackgroundLoad(this.#make());
    this.#load.start(Number(chosen("load")));
    this.#timer = setInterval(() => this.#show(), LOOK_EVERY_MS);
    element("load-start").textContent = "Stop the others";
    element("tab-load").toggleAttribute("data-on", true);
    this.#show();
  }

  #stop() {
    if (!this.isRunning) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#load.stop();
    element("load-start").textContent = "Start the others";
    element("tab-load").toggleAttribute("data-on", false);
    this.#show();
  }

  #show() {
    const figures = this.#load.figures();
    for (const name of ["speaking", "waiting", "refused", "finished"]) element(`l-${name}`).textContent = figures[name];
    element("l-ok").textContent = percent(figures.ok_share);
    element("l-p95").textContent = ms(figures.underrun_p95_ms);
    note(element("load-note"), this.isRunning ? loadInWords(figures) : null);
  }
}
