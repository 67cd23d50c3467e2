// Dialog for the server's API key.

import { element, note } from "./dom.js";

export class KeyDialog {
  #api;
  #onkey;

  /** Calls `onkey()` when a key was entered. */
  constructor({ api, onkey }) {
    this.#api = api;
    this.#onkey = onkey;
    element("key-open").addEventListener("click", () => this.open());
    element("key-cancel").addEventListener("click", () => element("key-dialog").close());
    element("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
  }

  open() {
    element("key-open").hidden = false;
    note(element("key-problem"), this.#api.hasKey ? "The server did not accept this key." : null);
    if (!element("key-dialog").open) element("key-dialog").showModal();
  }

  #submit() {
    this.#api.setKey(element("key").value, { keep: element("key-keep").checked });
    element("key").value = "";
    element("key-dialog").close();
    this.#onkey();
  }
}
