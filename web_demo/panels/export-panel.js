// Export of the audio, of the report, and of the request as a client program.

import { wavFile } from "../audio/wav.js";
import { asCurl, asJavaScript, asPython, asPythonWebsockets } from "../protocol/snippets.js";
import { utteranceReport } from "../utterance/report.js";
import { element, note, save } from "./dom.js";

const PROGRAMS = {
  python: ["Python", asPython],
  websockets: ["Python with the websockets package", asPythonWebsockets],
  javascript: ["JavaScript", asJavaScript],
  curl: ["curl", asCurl],
};

export class ExportPanel {
  #controller;
  #player;
  #request;

  /** `request()` returns {config, text, url, keyed} for the present settings. */
  constructor({ controller, player, request }) {
    this.#controller = controller;
    this.#player = player;
    this.#request = request;
    element("save-wav").addEventListener("click", () => this.#saveAudio());
    element("save-report").addEventListener("click", () => this.#saveReport());
    for (const name of Object.keys(PROGRAMS)) element(`copy-${name}`).addEventListener("click", () => this.#copy(name));
  }

  #saveAudio() {
    const { recording } = this.#player;
    if (recording === null || recording.chunks.length === 0) {
      this.#showStatus("No audio has been played yet.");
      return;
    }
    save(wavFile(recording.chunks, recording.sampleRateHz), "realtime-tts.wav");
    this.#showStatus(recording.truncated ? "Saved without its end: the recording reached its size limit." : "Saved.");
  }

  #saveReport() {
    const { utterance, server } = this.#controller;
    if (utterance === null) {
      this.#showStatus("No audio has been played yet.");
      return;
    }
    const report = utteranceReport(utterance, { serverInfo: server, userAgent: navigator.userAgent });
    save(new Blob([JSON.stringify(report, null, 2)], { type: "application/json" }), "realtime-tts-report.json");
    this.#showStatus("Saved.");
  }

  async #copy(name) {
    const { config, text, url, keyed } = this.#request();
    const [title, write] = PROGRAMS[name];
    const program = write(config, text, url, { keyed, model: this.#controller.server?.model });
    note(element("snippet"), program);
    try {
      await navigator.clipboard.writeText(program);
      this.#showStatus(`Copied as ${title}.`);
    } catch {
      this.#showStatus(`${title}: the browser denied the clipboard; copy the text below.`);
    }
  }

  #showStatus(status) {
    element("export-note").textContent = status;
  }
}
