// The same text under one scheduler after another, beside the same other listeners: heard, drawn, and in figures.

import { BackgroundLoad } from "../simulation/background-load.js";
import { chosen, element, make, note } from "./dom.js";
import { Strip } from "./buffer-chart.js";
import { Trace, traceStats } from "../utterance/buffer-history.js";
import { gapsInWords, ms, schedulerInWords, seconds } from "./display-text.js";

const OTHERS_BEGIN_MS = 2500; // so that the others are in mid-speech when ours is asked for
const ENOUGH_CHARACTERS = 280;

export class ComparePanel {
  #makeSpeaker;
  #load;
  #compose;
  #schedulers = [];
  #turn = 0; // numbers the comparisons, so that one that was broken off does not go on
  #speaker = null;
  #others = null;

  /**
   * `makeSpeaker(scheduler)` gives {speaker, retire}; `load(scheduler)` a BackgroundLoad's options; `compose()` {text,
   * config} as they stand.
   */
  constructor({ makeSpeaker, load, compose, onstart }) {
    this.#makeSpeaker = makeSpeaker;
    this.#load = load;
    this.#compose = compose;
    element("compare-start").addEventListener("click", () => {
      if (this.isRunning) this.stop();
      else {
        onstart();
        this.#compare();
      }
    });
    addEventListener("pagehide", () => this.stop());
  }

  get isRunning() {
    return this.#others !== null;
  }

  /** What GET /v1/demo offers; the server's own way comes first there, and is heard last. */
  offer(schedulers) {
    this.#schedulers = schedulers;
    element("compare-none").hidden = schedulers.length > 1;
    element("compare-controls").hidden = schedulers.length < 2;
  }

  stop() {
    if (!this.isRunning) return;
    this.#turn += 1;
    this.#speaker?.stop();
    this.#finish("Stopped.");
  }

  async #compare() {
    const turn = ++this.#turn;
    const { text, config } = this.#compose();
    element("compare-runs").replaceChildren();
    element("compare-start").textContent = "Stop";
    for (const scheduler of this.#schedulers.toReversed()) {
      await this.#hear(scheduler, { text: beginningOf(text), config }, turn);
      if (turn !== this.#turn) return;
    }
    this.#finish("That was both. Red is what you had to wait for in mid-speech.");
  }

  async #hear(scheduler, request, turn) {
    const many = Number(chosen("beside"));
    const others = new BackgroundLoad(this.#load(scheduler));
    this.#others = others;
    this.#say(`${schedulerInWords(scheduler)}: ${many === 0 ? "alone" : `${many} others begin to speak`}…`);
    others.start(many);
    if (many > 0) await pause(OTHERS_BEGIN_MS);
    while (turn === this.#turn) {
      this.#say(`${schedulerInWords(scheduler)}: now yours.`);
      const waitMs = await this.#speak(scheduler, request, others);
      if (waitMs === null) break;
      this.#say(`${schedulerInWords(scheduler)}: told to wait. Asking again in ${seconds(waitMs)}…`);
      await pause(waitMs);
    }
    others.stop();
  }

  /** Until it has ended: null, or after how long to ask again. */
  #speak(scheduler, { text, config }, others) {
    const { speaker, retire } = this.#makeSpeaker(scheduler === this.#schedulers[0] ? null : scheduler);
    this.#speaker = speaker;
    const card = new RunCard(scheduler, speaker);
    element("compare-runs").append(card.root);
    return new Promise((resolve) => {
      speaker.onchange = (what) => {
        card.show(what, others.figures());
        if (what !== "state" || speaker.isBusy) return;
        const { retryAfterMs } = speaker.run;
        card.end();
        if (retryAfterMs !== null) card.root.remove();
        this.#speaker = null;
        retire();
        resolve(retryAfterMs);
      };
      speaker.speak({ text, config, askedAtMs: performance.now() });
    });
  }

  #finish(words) {
    this.#others?.stop();
    this.#others = null;
    this.#speaker = null;
    element("compare-start").textContent = "Speak both";
    this.#say(words);
  }

  #say(words) {
    element("compare-status").textContent = words;
  }
}

/** One scheduler's strip and figures. */
class RunCard {
  root;
  #speaker;
  #trace = new Trace();
  #strip;
  #verdict = make("p", { className: "verdict" });
  #figures = make("p", { className: "soft" });
  #problem = make("p", { className: "note", hidden: true });

  constructor(scheduler, speaker) {
    this.#speaker = speaker;
    const canvas = make("canvas", { role: "img", ariaLabel: `Speech waiting to be heard, under ${schedulerInWords(scheduler)}` });
    const title = make("h4", { textContent: schedulerInWords(scheduler) });
    this.root = make("article", { className: "run" }, title, this.#verdict, canvas, this.#figures, this.#problem);
    this.root.dataset.scheduler = scheduler;
    this.#strip = new Strip(canvas, this.#trace);
    this.#strip.running = true;
  }

  show(what, others) {
    const now = this.#speaker.snapshot;
    const atS = performance.now() / 1000;
    if (what === "packet") this.#trace.packet(atS);
    if (what === "stats") traceStats(this.#trace, now, atS);
    this.#verdict.textContent = gapsInWords(now);
    this.#verdict.dataset.state = now.played_ms === 0 ? "idle" : now.underruns > 0 ? "bad" : "good";
    this.#figures.textContent =
      `First sound after ${ms(now.first_audible_ms)}; ${ms(now.gap_total_ms)} of waits in ${seconds(now.played_ms)} of speech.` +
      (others.asked > 0 ? ` Others: ${others.speaking} speaking, ${others.waiting} waiting, ${others.refused} refusals.` : "");
    note(this.#problem, now.problem);
  }

  end() {
    this.#strip.running = false;
  }
}

/** Whole sentences, and not too many: it is spoken once for each scheduler. */
function beginningOf(text) {
  if (text.length <= ENOUGH_CHARACTERS) return text;
  const cut = text.slice(0, ENOUGH_CHARACTERS);
  const end = Math.max(...[". ", "! ", "? ", "\n"].map((mark) => cut.lastIndexOf(mark)));
  return end > 0 ? cut.slice(0, end + 1) : cut;
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
