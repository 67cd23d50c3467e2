// Upload of a recording as a new voice, for models that clone voices.

import { element, note } from "./dom.js";

export class ClonePanel {
  #api;
  #onvoice;

  /** Calls `onvoice(name)` after an upload. */
  constructor({ api, onvoice }) {
    this.#api = api;
    this.#onvoice = onvoice;
    element("clone-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#upload(event.target);
    });
  }

  async #upload(form) {
    const data = new FormData(form);
    if (data.get("ref_text").trim() === "") data.delete("ref_text");
    note(element("clone-note"), "Uploading…");
    const response = await this.#api.request("v1/audio/voices", { method: "POST", body: data });
    if (response === null) {
      note(element("clone-note"), "The server is not reachable.");
      return;
    }
    const answer = await response.json().catch(() => null);
    if (!response.ok) {
      note(element("clone-note"), answer?.error?.message ?? `The server refused the upload (status ${response.status}).`);
      return;
    }
    note(element("clone-note"), `“${answer.name}” is now available as a voice.`);
    form.reset();
    this.#onvoice(answer.name);
  }
}
