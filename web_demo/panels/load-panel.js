// Load panel: other listeners beside ours, and their continuity.

import { BackgroundLoad } from "../simulation/background-load.js";
import { loadText, ms, percent } from "./display-text.js";
import { element, note, selectedRadio } from "./dom.js";

const UPDATE_EVERY_MS = 500;

export class LoadPanel {
  #load = null;
  #options;
  #timer = null;

  /** `options()` are BackgroundLoad's options. */
  constructor(options) {
    this.#options = options;
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
    this.#load = new BackgroundLoad(this.#options());
    this.#load.start(Number(selectedRadio("load")));
    this.#timer = setInterval(() => this.#show(), UPDATE_EVERY_MS);
    element("load-start").textContent = "Stop the other listeners";
    element("tab-load").toggleAttribute("data-on", true);
    this.#show();
  }

  #stop() {
    if (!this.isRunning) return;
    clearInterval(this.#timer);
    this.#timer = null;
    this.#load.stop();
    element("load-start").textContent = "Start other listeners";
    element("tab-load").toggleAttribute("data-on", false);
    this.#show();
  }

  #show() {
    const figures = this.#load.figures();
    for (const name of ["speaking", "waiting", "refused", "finished", "failed"]) element(`l-${name}`).textContent = figures[name];
    element("l-ok").textContent = percent(figures.ok_share);
    element("l-p95").textContent = ms(figures.underrun_p95_ms);
    note(element("load-note"), this.isRunning ? loadText(figures) : null);
  }
}
