// Message panel: all WebSocket messages, newest last.  Consecutive binary frames share one row.

import { element, make } from "./dom.js";

const MAX_ROWS = 400;
const NEAR_END_PX = 40;

export class MessagePanel {
  #list = element("messages");
  #startedAtS = null;
  #audio = null; // the row of the present run of binary frames: {line, atS, frames, bytes}
  #count = 0;

  constructor() {
    element("messages-clear").addEventListener("click", () => this.clear());
  }

  clear() {
    this.#list.replaceChildren();
    this.#startedAtS = this.#audio = null;
    this.#count = 0;
    this.#showCount();
  }

  /** Add a client's "message" event. */
  add({ direction, at_s, data }) {
    this.#startedAtS ??= at_s;
    this.#count += 1;
    const atS = at_s - this.#startedAtS;
    if (data.type === undefined) this.#addAudio(atS, data.bytes);
    else this.#addMessage(direction, atS, data);
    while (this.#list.childElementCount > MAX_ROWS) this.#list.firstElementChild.remove();
    this.#showCount();
  }

  #addAudio(atS, bytes) {
    if (this.#audio === null) {
      const line = make("p");
      this.#append("in", line);
      this.#audio = { line, atS, frames: 0, bytes: 0 };
    }
    this.#audio.frames += 1;
    this.#audio.bytes += bytes;
    const { line, frames, bytes: sum } = this.#audio;
    line.replaceChildren(...heading("in", this.#audio.atS, "audio", `${frames} × binary, ${sum.toLocaleString("en")} bytes`));
  }

  #addMessage(direction, atS, message) {
    this.#audio = null;
    const summary = make("summary", {}, ...heading(direction, atS, message.type, summaryOf(message)));
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
    const atEnd = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END_PX;
    this.#list.append(make("li", { className }, child));
    if (atEnd) box.scrollTop = box.scrollHeight;
  }

  #showCount() {
    element("messages-count").textContent = this.#count === 1 ? "1 message" : `${this.#count} messages`;
  }
}

function heading(direction, atS, type, rest) {
  return [
    make("span", { className: "at", textContent: atS.toFixed(3) }),
    make("span", { className: "direction", textContent: direction === "out" ? "→" : "←", title: direction === "out" ? "sent" : "received" }),
    make("b", { textContent: type }),
    make("span", { className: "summary", textContent: rest }),
  ];
}

/** The main content of a message. */
function summaryOf({ sentence_text, text, code, message, duration_ms, text_spoken, words, voice, reason }) {
  if (message !== undefined) return `${code}: ${message}`;
  if (words !== undefined) return `${words.length} words`;
  const content = sentence_text ?? text ?? text_spoken;
  if (content !== undefined) return JSON.stringify(content.length > 60 ? `${content.slice(0, 60)}…` : content);
  if (duration_ms !== undefined) return `${(duration_ms / 1000).toFixed(2)} s`;
  return voice ?? reason ?? "";
}
