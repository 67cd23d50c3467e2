// The list of sentences: what has arrived, what is being heard, what has been heard.

export class SentenceList {
  #list;
  #rows = [];
  #now = -1;

  constructor(list) {
    this.#list = list;
  }

  clear() {
    this.#list.replaceChildren();
    this.#rows = [];
    this.#now = -1;
  }

  /** Show the timeline as heard up to `playedSamples`. */
  update(timeline, playedSamples) {
    const { sentences } = timeline;
    while (this.#rows.length < sentences.length) this.#append(sentences[this.#rows.length]);
    const heard = timeline.heard(playedSamples);
    const now = timeline.at(playedSamples);
    this.#rows.forEach((row, i) => {
      row.dataset.state = sentences[i].error ? "failed" : i === now ? "now" : heard[i] === 1 ? "heard" : "waiting";
      row.style.setProperty("--heard", heard[i].toFixed(3));
    });
    if (now !== this.#now) this.#moveTo(now);
  }

  #append({ text }) {
    const row = document.createElement("li");
    row.textContent = text;
    this.#list.append(row);
    this.#rows.push(row);
  }

  #moveTo(now) {
    this.#rows[this.#now]?.removeAttribute("aria-current");
    this.#rows[now]?.setAttribute("aria-current", "true");
    this.#now = now;
    const row = this.#rows[now];
    if (row === undefined) return;
    // Only the list scrolls, never the page under the reader's hands.
    const top = row.offsetTop - this.#list.offsetTop;
    if (top < this.#list.scrollTop || top + row.offsetHeight > this.#list.scrollTop + this.#list.clientHeight) {
      this.#list.scrollTop = top - this.#list.clientHeight / 3;
    }
  }
}
