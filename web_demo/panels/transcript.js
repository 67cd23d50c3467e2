// The text as it is heard: sentences and words light up under the playhead.  After a barge-in: heard, and not heard.

import { make, wantsCalm } from "./dom.js";

export class Stage {
  #root;
  #run = null;
  #body = null;
  #tail = null; // what no sentence has claimed yet
  #characters = []; // code points, as spans count them
  #units = 0; // UTF-16 units of the run's text that have been taken
  #placed = 0;
  #rows = []; // {element, sentence, words: [{element, word}]}
  #settled = 0; // rows before this one have been heard, and change no more
  #now = null;
  #cut = false;

  constructor(root) {
    this.#root = root;
  }

  /** What would be spoken, before it is. */
  preview(text) {
    this.#run = null;
    this.#root.replaceChildren(make("p", { className: "speech", textContent: text }));
  }

  /** Show `run` as heard up to `playedSamples`. */
  update(run, playedSamples) {
    if (run !== this.#run) this.#reset(run);
    if (this.#cut) return;
    this.#take(run.text);
    const { sentences } = run.timeline;
    while (this.#rows.length < sentences.length) this.#place(sentences[this.#rows.length]);
    for (let i = this.#settled; i < this.#rows.length; i++) this.#light(this.#rows[i], playedSamples, i);
    this.#root.toggleAttribute("data-typing", run.inputDoneS === null && run.outcome === null);
  }

  /** Barged in: what was heard, and what was not. */
  cut({ heard, unheard }) {
    this.#cut = true;
    this.#root.removeAttribute("data-typing");
    const here = make("span", { className: "cut", title: "stopped here" });
    this.#body.replaceChildren(
      make("span", { className: "heard", textContent: heard }),
      here,
      make("span", { className: "unheard", textContent: unheard }),
    );
    this.#show(here);
  }

  #reset(run) {
    this.#run = run;
    this.#tail = document.createTextNode("");
    this.#body = make("p", { className: "speech" }, this.#tail);
    this.#root.replaceChildren(this.#body);
    this.#root.scrollTop = 0;
    this.#characters = [];
    this.#units = this.#placed = this.#settled = 0;
    this.#rows = [];
    this.#now = null;
    this.#cut = false;
  }

  #take(text) {
    if (text.length === this.#units) return;
    const more = text.slice(this.#units);
    this.#units = text.length;
    for (const character of more) this.#characters.push(character);
    this.#tail.data += more;
  }

  #slice(from, to) {
    return this.#characters.slice(from, to).join("");
  }

  #place(sentence) {
    const [from, to] = sentence.span.map((at) => Math.max(at, this.#placed));
    const element = make("span", { className: "sentence", textContent: this.#slice(from, to) });
    this.#tail.before(document.createTextNode(this.#slice(this.#placed, from)), element);
    this.#placed = to;
    this.#tail.data = this.#slice(to);
    this.#rows.push({ element, sentence, words: [] });
  }

  #spell(row) {
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

  #light(row, played, i) {
    const { sentence, element } = row;
    this.#spell(row);
    const isNow = played > 0 && played >= sentence.start && played < sentence.end;
    const isHeard = sentence.complete && played >= sentence.end && sentence.end > sentence.start;
    set(element, sentence.error ? "failed" : isNow ? "now" : isHeard ? "heard" : "waiting");
    element.classList.toggle("timed", row.words.length > 0);
    let current = isNow ? element : null;
    for (const { element: shown, word } of row.words) {
      const state = played >= word.end || isHeard ? "heard" : isNow && played >= word.start ? "now" : "waiting";
      set(shown, state);
      if (state === "now") current = shown;
    }
    if (isHeard && i === this.#settled) this.#settled += 1;
    if (current !== null && current !== this.#now) this.#follow(current, element);
  }

  #follow(current, sentence) {
    this.#root.querySelector('[aria-current="true"]')?.removeAttribute("aria-current");
    sentence.setAttribute("aria-current", "true");
    this.#now = current;
    this.#show(current);
  }

  /** Only the stage scrolls, never the page under the reader's hands. */
  #show(element) {
    const { scrollTop, clientHeight } = this.#root;
    const top = element.offsetTop;
    if (top >= scrollTop + clientHeight * 0.15 && top + element.offsetHeight <= scrollTop + clientHeight * 0.75) return;
    this.#root.scrollTo({ top: top - clientHeight * 0.3, behavior: wantsCalm() ? "instant" : "smooth" });
  }
}

function set(element, state) {
  if (element.dataset.state !== state) element.dataset.state = state;
}
