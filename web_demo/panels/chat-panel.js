// Chat with a model that answers: its text is shown and its audio played while it is written.

import { SampleQueue } from "../audio/sample-queue.js";
import { AnswerReader, partsOf, requestOf } from "../protocol/chat.js";
import { element, make, note } from "./dom.js";

const MAX_FILE_BYTES = 10 * 1024 * 1024;
const RATE_HZ = 24_000;

export class ChatPanel {
  #api;
  #model = null;
  #voice;
  #messages = [];
  #files = [];
  #running = null;
  #context = null;
  #queue = null;

  /** `voice()` is the selected voice of a model, or an empty text. */
  constructor({ api, voice }) {
    this.#api = api;
    this.#voice = voice;
    const form = element("chat-form");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#send();
    });
    element("chat-stop").addEventListener("click", () => this.#stop());
    element("chat-file").addEventListener("change", ({ target }) => {
      this.#add(target.files);
      target.value = "";
    });
    const panel = element("panel-chat");
    panel.addEventListener("dragover", (event) => event.preventDefault());
    panel.addEventListener("drop", (event) => {
      event.preventDefault();
      this.#add(event.dataTransfer.files);
    });
  }

  /** Shows the tab if one of `models`, as GET /v1/models lists them, answers. */
  show(models) {
    this.#model = models.find(({ answers }) => answers)?.id ?? null;
    element("tab-chat").hidden = this.#model === null;
  }

  async #add(files) {
    for (const file of files) {
      const { name, size, type } = file;
      if (!/^(audio|image)\//.test(type)) note(element("chat-note"), `${name} is neither audio nor an image.`);
      else if (size > MAX_FILE_BYTES) note(element("chat-note"), `${name} is larger than 10 MiB.`);
      else this.#files.push({ name, type, dataUrl: await dataUrlOf(file) });
    }
    this.#showFiles();
  }

  #showFiles() {
    element("chat-files").textContent = this.#files.map(({ name }) => name).join(", ");
  }

  async #send() {
    const text = element("chat-text").value;
    const parts = partsOf(text, this.#files);
    if (parts.length === 0 || this.#model === null) return;
    this.#stop();
    this.#append("user", [text, ...this.#files.map(({ name }) => `[${name}]`)].filter(Boolean).join(" "));
    this.#messages.push({ role: "user", content: parts });
    element("chat-text").value = "";
    this.#files = [];
    this.#showFiles();
    note(element("chat-note"), null);
    this.#context ??= new AudioContext();
    await this.#context.resume();
    this.#queue = new SampleQueue(this.#context, RATE_HZ);
    const line = this.#append("assistant", "");
    const running = (this.#running = new AbortController());
    await this.#receive(line, running).catch((error) => {
      if (error.name !== "AbortError") note(element("chat-note"), `The answer was interrupted: ${error.message}`);
    });
    // What was written is part of the conversation, also if it was stopped.
    if (line.textContent) this.#messages.push({ role: "assistant", content: line.textContent });
    else this.#messages.pop();
  }

  async #receive(line, { signal }) {
    const response = await this.#api.request("v1/chat/completions", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(requestOf(this.#messages, { model: this.#model, voice: this.#voice(this.#model) })),
      signal,
    });
    if (signal.aborted) return;
    if (response === null) throw new Error("the server is not reachable");
    if (!response.ok) throw new Error((await response.json().catch(() => null))?.error?.message ?? `status ${response.status}`);
    const reader = new AnswerReader();
    const decoder = new TextDecoder();
    for await (const bytes of chunksOf(response.body)) {
      for (const piece of reader.push(decoder.decode(bytes, { stream: true }))) {
        if (piece.error) throw new Error(piece.error);
        if (piece.text) line.textContent += piece.text;
        if (piece.samples && !signal.aborted) this.#queue.push(piece.samples);
      }
    }
    if (!reader.isComplete) throw new Error("the connection was closed");
  }

  #append(role, text) {
    const content = make("span", { textContent: text });
    const item = make("li", { className: role }, make("b", { textContent: role === "user" ? "You: " : "Model: " }), content);
    element("chat-turns").append(item);
    item.scrollIntoView({ block: "nearest" });
    return content;
  }

  #stop() {
    this.#running?.abort();
    this.#queue?.stop();
  }
}

function dataUrlOf(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(file);
  });
}

async function* chunksOf(stream) {
  const reader = stream.getReader();
  for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
}
