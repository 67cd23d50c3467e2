// Awkward texts in one click; and what became of a text: sent, spoken, sentence by sentence.

import { element, make } from "./dom.js";
import { TORTURE_TEXTS } from "../simulation/difficult-texts.js";
import { seconds } from "./display-text.js";

export class TextsPanel {
  #shown = null; // the run whose rows are there
  #rows = 0;
  #placed = 0; // code points of the text that have a row
  #cells = new Map(); // sentence index -> its cell for the length

  /** `speak(text, atMs)` puts a text into the composer and speaks it. */
  constructor(speak) {
    element("texts").append(
      ...TORTURE_TEXTS.map(({ name, text }) => {
        const button = make("button", { type: "button", textContent: name });
        button.addEventListener("click", ({ timeStamp }) => speak(text, timeStamp));
        return button;
      }),
    );
  }

  show(run) {
    if (run !== this.#shown) this.#reset(run);
    const characters = Array.from(run.text);
    for (const start of run.starts.slice(this.#rows)) this.#add(start, characters);
    this.#rows = run.starts.length;
    for (const { start, done } of run.sentences) {
      const cell = this.#cells.get(start.sentence_index);
      cell.textContent = done.error ? "failed" : seconds(done.duration_ms ?? 0);
    }
    if (run.complete && this.#placed < characters.length) {
      this.#row("", characters.slice(this.#placed).join(""), null, "");
      this.#placed = characters.length;
    }
  }

  #reset(run) {
    this.#shown = run;
    this.#rows = this.#placed = 0;
    this.#cells.clear();
    element("spoken-rows").replaceChildren();
  }

  #add({ sentence_index: index, sentence_text: spoken, text_span: [from, to] }, characters) {
    const dropped = characters.slice(this.#placed, from).join("");
    if (dropped.trim() !== "") this.#row("", dropped, null, "");
    this.#cells.set(index, this.#row(index + 1, characters.slice(from, to).join(""), spoken, "…"));
    this.#placed = to;
  }

  /** A row; `spoken` is null where nothing of it is read aloud.  Returns the last cell. */
  #row(number, sent, spoken, length) {
    if (sent.trim() === "" && spoken === null) return null;
    const said = spoken === null ? make("td", { className: "soft", textContent: "not read aloud" }) : make("td", { textContent: spoken });
    if (spoken !== null && spoken !== sent) said.className = "changed";
    const cell = make("td", { textContent: length });
    element("spoken-rows").append(make("tr", {}, make("td", { textContent: number }), make("td", { textContent: sent }), said, cell));
    return cell;
  }
}
