// Every message on the wire, newest last; JSON unfolds, and frames of sound in a row share a line.

import { element, make } from "./dom.js";

const MOST_ROWS = 400;
const NEAR_END_PX = 40;

export class Inspector {
  #list = element("messages");
  #startedAtS = null;
  #sound = null; // the line that runs of audio frames add to: {summary, frames, bytes}
  #count = 0;

  constructor() {
    element("inspector-clear").addEventListener("click", () => this.clear());
  }

  clear() {
    this.#list.replaceChildren();
    this.#startedAtS = this.#sound = null;
    this.#count = 0;
    this.#showCount();
  }

  /** A client's "message" event. */
  add({ direction, at_s, data }) {
    this.#startedAtS ??= at_s;
    this.#count += 1;
    const atS = at_s - this.#startedAtS;
    if (data.type === undefined) this.#addSound(atS, data.bytes);
    else this.#addMessage(direction, atS, data);
    while (this.#list.childElementCount > MOST_ROWS) this.#list.firstElementChild.remove();
    this.#showCount();
  }

  #addSound(atS, bytes) {
    if (this.#sound === null) {
      const line = make("p");
      this.#append("in", line);
      this.#sound = { line, atS, frames: 0, bytes: 0 };
    }
    this.#sound.frames += 1;
    this.#sound.bytes += bytes;
    const { line, frames, bytes: sum } = this.#sound;
    line.replaceChildren(...heading("in", this.#sound.atS, "audio", `${frames} × binary, ${sum.toLocaleString("en")} bytes`));
  }

  #addMessage(direction, atS, message) {
    this.#sound = null;
    const summary = make("summary", {}, ...heading(direction, atS, message.type, gist(message)));
    const details = make("details", {}, summary);
    details.addEventListener("toggle", () => {
      if (details.open && details.childElementCount === 1) {
        details.append(make("pre", { textContent: JSON.stringify(message, null, 2), tabIndex: 0 }));
      }
    });
    this.#append(direction, details);
  }

  #append(className, child) {
    const box = this.#list.parentElement;
    const follows = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
    this.#list.append(make("li", { className }, child));
    if (follows) box.scrollTop = box.scrollHeight;
  }

  #showCount() {
    element("inspector-count").textContent = this.#count === 1 ? "1 message" : `${this.#count} messages`;
  }
}

function heading(direction, atS, type, rest) {
  return [
    make("span", { className: "at", textContent: atS.toFixed(3) }),
    make("span", { className: "way", textContent: direction === "out" ? "→" : "←", title: direction === "out" ? "sent" : "received" }),
    make("b", { textContent: type }),
    make("span", { className: "gist", textContent: rest }),
  ];
}

/** What one would look for first in a message. */
function gist({ sentence_text, text, code, message, duration_ms, text_spoken, words, voice, reason }) {
  if (message !== undefined) return `${code}: ${message}`;
  if (words !== undefined) return `${words.length} words`;
  const said = sentence_text ?? text ?? text_spoken;
  if (said !== undefined) return JSON.stringify(said.length > 60 ? `${said.slice(0, 60)}…` : said);
  if (duration_ms !== undefined) return `${(duration_ms / 1000).toFixed(2)} s`;
  return voice ?? reason ?? "";
}
