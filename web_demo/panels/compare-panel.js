// Comparison of two models, or of one model under two schedulers: the same text beside the same load.

import { BackgroundLoad } from "../simulation/background-load.js";
import { BufferHistory } from "../utterance/buffer-history.js";
import { BufferChart } from "./buffer-chart.js";
import { gapsText, ms, seconds } from "./display-text.js";
import { element, make, note, selectedRadio } from "./dom.js";

const LOAD_AHEAD_MS = 2500; // so that the other listeners are in mid-utterance at our request
const MAX_CHARACTERS = 280;

export class ComparePanel {
  #settings;
  #text;
  #makeController;
  #loadOptions;
  #comparison = 0; // so that an aborted comparison does not continue
  #controller = null;
  #load = null;

  /**
   * `text()` is the text to speak; `makeController()` returns {controller, close}; `loadOptions(config)` are
   * BackgroundLoad's options.
   */
  constructor({ settings, text, makeController, loadOptions, onstart }) {
    this.#settings = settings;
    this.#text = text;
    this.#makeController = makeController;
    this.#loadOptions = loadOptions;
    element("compare-start").addEventListener("click", () => {
      if (this.isRunning) this.stop();
      else {
        onstart();
        this.#compare();
      }
    });
    element("model").addEventListener("change", () => this.showModels());
    addEventListener("pagehide", () => this.stop());
  }

  get isRunning() {
    return this.#load !== null;
  }

  /** Offer the models to compare with the selected one. */
  showModels() {
    const others = this.#settings.models.filter((name) => name !== this.#settings.model);
    element("compare-none").hidden = others.length > 0;
    element("compare-controls").hidden = others.length === 0;
    element("compare-model").replaceChildren(...others.map((name) => new Option(name)));
  }

  stop() {
    if (!this.isRunning) return;
    this.#comparison += 1;
    this.#controller?.stop();
    this.#finish("Stopped.");
  }

  async #compare() {
    const comparison = ++this.#comparison;
    element("compare-runs").replaceChildren();
    element("compare-start").textContent = "Stop";
    const models = [element("compare-model").value, this.#settings.model];
    const text = firstSentences(this.#text());
    for (const model of models) {
      await this.#speakBesideLoad(model, { text, config: this.#settings.configFor(model) }, comparison);
      if (comparison !== this.#comparison) return;
    }
    this.#finish("Both are finished. Red marks waits for late audio.");
  }

  async #speakBesideLoad(model, request, comparison) {
    const listeners = Number(selectedRadio("beside"));
    const load = new BackgroundLoad(this.#loadOptions(request.config));
    this.#load = load;
    this.#showStatus(listeners === 0 ? `${model}…` : `${model}: starting ${listeners} other listeners…`);
    load.start(listeners);
    if (listeners > 0) await pause(LOAD_AHEAD_MS);
    while (comparison === this.#comparison) {
      this.#showStatus(`${model}: speaking your text.`);
      const retryAfterMs = await this.#speak(model, request, load);
      if (retryAfterMs === null) break;
      this.#showStatus(`${model}: refused. Retry in ${seconds(retryAfterMs)}…`);
      await pause(retryAfterMs);
    }
    load.stop();
  }

  /** Resolves at the end of the utterance: to null, or to the time until the retry. */
  #speak(model, request, load) {
    const { controller, close } = this.#makeController();
    this.#controller = controller;
    const card = new RunCard(model, controller);
    element("compare-runs").append(card.root);
    return new Promise((resolve) => {
      controller.onchange = (kind) => {
        card.show(kind, load.figures());
        if (kind !== "state" || controller.isBusy) return;
        const { retryAfterMs } = controller.utterance;
        card.end();
        if (retryAfterMs !== null) card.root.remove();
        this.#controller = null;
        close();
        resolve(retryAfterMs);
      };
      controller.speak({ ...request, askedAtMs: performance.now() });
    });
  }

  #finish(status) {
    this.#load?.stop();
    this.#load = null;
    this.#controller = null;
    element("compare-start").textContent = "Speak with both";
    this.#showStatus(status);
  }

  #showStatus(status) {
    element("compare-status").textContent = status;
  }
}

/** Chart and figures of one model. */
class RunCard {
  root;
  #controller;
  #history = new BufferHistory();
  #chart;
  #verdict = make("p", { className: "verdict" });
  #figures = make("p", { className: "soft" });
  #problem = make("p", { className: "note", hidden: true });

  constructor(model, controller) {
    this.#controller = controller;
    const canvas = make("canvas", { role: "img", ariaLabel: `Buffered audio with ${model}` });
    const title = make("h4", { textContent: model });
    this.root = make("article", { className: "run" }, title, this.#verdict, canvas, this.#figures, this.#problem);
    this.root.dataset.model = model;
    this.#chart = new BufferChart(canvas, this.#history);
    this.#chart.running = true;
  }

  show(kind, load) {
    const now = this.#controller.snapshot;
    if (kind === "packet") this.#history.addPacket(performance.now() / 1000);
    if (kind === "stats") this.#history.addSnapshot(now);
    this.#verdict.textContent = gapsText(now);
    this.#verdict.dataset.state = now.played_ms === 0 ? "idle" : now.underruns > 0 ? "bad" : "good";
    this.#figures.textContent =
      `First audio after ${ms(now.first_audible_ms)}; ${ms(now.gap_total_ms)} of gaps in ${seconds(now.played_ms)} of speech.` +
      (load.asked > 0 ? ` Others: ${load.speaking} active, ${load.waiting} waiting, ${load.refused} refusals.` : "");
    note(this.#problem, now.problem);
  }

  end() {
    this.#chart.running = false;
  }
}

/** Whole sentences of limited length: the text is spoken twice. */
function firstSentences(text) {
  if (text.length <= MAX_CHARACTERS) return text;
  const head = text.slice(0, MAX_CHARACTERS);
  const end = Math.max(...[". ", "! ", "? ", "\n"].map((mark) => head.lastIndexOf(mark)));
  return end > 0 ? head.slice(0, end + 1) : head;
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
