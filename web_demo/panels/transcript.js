// Transcript: sentences and words are highlighted as they are played.  After a barge-in: played and remaining text.

import { make, prefersReducedMotion } from "./dom.js";

export class Transcript {
  #root;
  #utterance = null;
  #body = null;
  #tail = null; // the text after the last sentence
  #characters = []; // code points, as spans count them
  #units = 0; // UTF-16 units of the utterance's text in `#characters`
  #placed = 0; // code points of the text that are in a row, or before one
  #rows = []; // {element, sentence, words: [{element, word}]}
  #settled = 0; // rows before this one are played and no longer change
  #now = null;
  #stopped = false;

  constructor(root) {
    this.#root = root;
  }

  /** Show a text that is not spoken yet. */
  preview(text) {
    this.#utterance = null;
    this.#root.replaceChildren(make("p", { className: "speech", textContent: text }));
  }

  /** Show `utterance` as played up to `playedSamples`. */
  update(utterance, playedSamples) {
    if (utterance !== this.#utterance) this.#reset(utterance);
    if (this.#stopped) return;
    this.#addText(utterance.text);
    const { sentences } = utterance.timeline;
    while (this.#rows.length < sentences.length) this.#addRow(sentences[this.#rows.length]);
    for (let i = this.#settled; i < this.#rows.length; i++) this.#updateRow(this.#rows[i], playedSamples, i);
    this.#root.toggleAttribute("data-typing", utterance.inputDoneS === null && utterance.outcome === null);
  }

  /** Show the split of the text after a barge-in. */
  showSplit({ played, remaining }) {
    this.#stopped = true;
    this.#root.removeAttribute("data-typing");
    const stop = make("span", { className: "stop-mark", title: "stopped here" });
    this.#body.replaceChildren(
      make("span", { className: "played", textContent: played }),
      stop,
      make("span", { className: "remaining", textContent: remaining }),
    );
    this.#scrollTo(stop);
  }

  #reset(utterance) {
    this.#utterance = utterance;
    this.#tail = document.createTextNode("");
    this.#body = make("p", { className: "speech" }, this.#tail);
    this.#root.replaceChildren(this.#body);
    this.#root.scrollTop = 0;
    this.#characters = [];
    this.#units = this.#placed = this.#settled = 0;
    this.#rows = [];
    this.#now = null;
    this.#stopped = false;
  }

  #addText(text) {
    if (text.length === this.#units) return;
    const added = text.slice(this.#units);
    this.#units = text.length;
    for (const character of added) this.#characters.push(character);
    this.#tail.data += added;
  }

  #slice(from, to) {
    return this.#characters.slice(from, to).join("");
  }

  #addRow(sentence) {
    const [from, to] = sentence.span.map((at) => Math.max(at, this.#placed));
    const element = make("span", { className: "sentence", textContent: this.#slice(from, to) });
    this.#tail.before(document.createTextNode(this.#slice(this.#placed, from)), element);
    this.#placed = to;
    this.#tail.data = this.#slice(to);
    this.#rows.push({ element, sentence, words: [] });
  }

  #addWords(row) {
    if (row.words.length === row.sentence.words.length) return;
    let at = row.sentence.span[0];
    const pieces = [];
    row.words = row.sentence.words.map((word) => {
      const element = make("span", { className: "word", textContent: this.#slice(word.span[0], word.span[1]) });
      pieces.push(this.#slice(at, word.span[0]), element);
      at = word.span[1];
      return { element, word };
    });
    pieces.push(this.#slice(at, row.sentence.span[1]));
    row.element.replaceChildren(...pieces);
  }

  #updateRow(row, played, i) {
    const { sentence, element } = row;
    this.#addWords(row);
    const isNow = played > 0 && played >= sentence.start && played < sentence.end;
    const isPlayed = sentence.complete && played >= sentence.end && sentence.end > sentence.start;
    setState(element, sentence.error ? "failed" : isNow ? "now" : isPlayed ? "played" : "waiting");
    element.classList.toggle("timed", row.words.length > 0);
    let current = isNow ? element : null;
    for (const { element: wordElement, word } of row.words) {
      const state = played >= word.end || isPlayed ? "played" : isNow && played >= word.start ? "now" : "waiting";
      setState(wordElement, state);
      if (state === "now") current = wordElement;
    }
    if (isPlayed && i === this.#settled) this.#settled += 1;
    if (current !== null && current !== this.#now) this.#setCurrent(current, element);
  }

  #setCurrent(current, sentence) {
    this.#root.querySelector('[aria-current="true"]')?.removeAttribute("aria-current");
    sentence.setAttribute("aria-current", "true");
    this.#now = current;
    this.#scrollTo(current);
  }

  /** Scrolls the transcript only, never the page. */
  #scrollTo(element) {
    const { scrollTop, clientHeight } = this.#root;
    const top = element.offsetTop;
    if (top >= scrollTop + clientHeight * 0.15 && top + element.offsetHeight <= scrollTop + clientHeight * 0.75) return;
    this.#root.scrollTo({ top: top - clientHeight * 0.3, behavior: prefersReducedMotion() ? "instant" : "smooth" });
  }
}

function setState(element, state) {
  if (element.dataset.state !== state) element.dataset.state = state;
}
