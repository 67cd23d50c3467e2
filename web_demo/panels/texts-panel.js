// Difficult texts, and a table of sent and spoken text by sentence.

import { DIFFICULT_TEXTS } from "../simulation/difficult-texts.js";
import { seconds } from "./display-text.js";
import { element, make } from "./dom.js";

export class TextsPanel {
  #utterance = null; // of the present rows
  #rows = 0;
  #placed = 0; // code points of the text that have a row
  #durations = new Map(); // sentence index -> table cell

  /** `speak(text, atMs)` copies a text into the form and speaks it. */
  constructor(speak) {
    element("texts").append(
      ...DIFFICULT_TEXTS.map(({ name, text }) => {
        const button = make("button", { type: "button", textContent: name });
        button.addEventListener("click", ({ timeStamp }) => speak(text, timeStamp));
        return button;
      }),
    );
  }

  show(utterance) {
    if (utterance !== this.#utterance) this.#reset(utterance);
    const characters = Array.from(utterance.text);
    for (const start of utterance.audioStarts.slice(this.#rows)) this.#addSentence(start, characters);
    this.#rows = utterance.audioStarts.length;
    for (const { start, done } of utterance.sentences) {
      const cell = this.#durations.get(start.sentence_index);
      cell.textContent = done.error ? "failed" : seconds(done.duration_ms ?? 0);
    }
    if (utterance.complete && this.#placed < characters.length) {
      this.#addRow("", characters.slice(this.#placed).join(""), null, "");
      this.#placed = characters.length;
    }
  }

  #reset(utterance) {
    this.#utterance = utterance;
    this.#rows = this.#placed = 0;
    this.#durations.clear();
    element("spoken-rows").replaceChildren();
  }

  #addSentence({ sentence_index: index, sentence_text: spoken, text_span: [from, to] }, characters) {
    const dropped = characters.slice(this.#placed, from).join("");
    if (dropped.trim() !== "") this.#addRow("", dropped, null, "");
    this.#durations.set(index, this.#addRow(index + 1, characters.slice(from, to).join(""), spoken, "…"));
    this.#placed = to;
  }

  /** `spoken` is null for text that is not spoken.  Returns the last cell. */
  #addRow(number, sent, spoken, duration) {
    if (sent.trim() === "" && spoken === null) return null;
    const spokenCell = make("td", { textContent: spoken ?? "not spoken" });
    if (spoken === null) spokenCell.className = "soft";
    else if (spoken !== sent) spokenCell.className = "changed";
    const cell = make("td", { textContent: duration });
    const columns = [make("td", { textContent: number }), make("td", { textContent: sent }), spokenCell, cell];
    element("spoken-rows").append(make("tr", {}, ...columns));
    return cell;
  }
}
