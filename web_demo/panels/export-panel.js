// What can be taken along: the sound, the report, and the same request as a program.

import { element, note, save } from "./dom.js";
import { asCurl, asJavaScript, asPython, asPythonWebsockets } from "../protocol/snippets.js";
import { wavFile } from "../audio/wav.js";

const PROGRAMS = {
  python: ["Python", asPython],
  websockets: ["Python, with the websockets package alone", asPythonWebsockets],
  javascript: ["JavaScript", asJavaScript],
  curl: ["curl", asCurl],
};

export class KeepPanel {
  #speaker;
  #player;
  #present;

  /** `present()` gives {config, text, url, keyed}: what Speak would ask for now. */
  constructor({ speaker, player, present }) {
    this.#speaker = speaker;
    this.#player = player;
    this.#present = present;
    element("save-wav").addEventListener("click", () => this.#saveSound());
    element("save-report").addEventListener("click", () => this.#saveReport());
    for (const name of Object.keys(PROGRAMS)) element(`copy-${name}`).addEventListener("click", () => this.#copy(name));
  }

  #saveSound() {
    const { recording } = this.#player;
    if (recording === null || recording.chunks.length === 0) {
      this.#say("Nothing has been spoken yet.");
      return;
    }
    save(wavFile(recording.chunks, recording.sampleRateHz), "realtime-tts.wav");
    this.#say(recording.truncated ? "Saved; the end did not fit into this page’s memory." : "Saved.");
  }

  #saveReport() {
    const { run, server } = this.#speaker;
    if (run === null) {
      this.#say("Nothing has been spoken yet.");
      return;
    }
    const report = run.report({ serverInfo: server, userAgent: navigator.userAgent });
    save(new Blob([JSON.stringify(report, null, 2)], { type: "application/json" }), "realtime-tts-report.json");
    this.#say("Saved.");
  }

  async #copy(name) {
    const { config, text, url, keyed } = this.#present();
    const [title, write] = PROGRAMS[name];
    const program = write(config, text, url, { keyed, model: this.#speaker.server?.model });
    note(element("snippet"), program);
    try {
      await navigator.clipboard.writeText(program);
      this.#say(`Copied as ${title}.`);
    } catch {
      this.#say(`${title}, to be copied by hand: this browser lets the page not use the clipboard.`);
    }
  }

  #say(words) {
    element("keep-note").textContent = words;
  }
}
