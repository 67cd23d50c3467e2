// Form for the text: sends it at once, or token by token as a language model does.

import { streamTokens } from "../simulation/token-stream.js";
import { element, note, selectedRadio } from "./dom.js";

export class Composer {
  /** Called when an utterance begins, in the click handler. */
  onspeak = () => {};
  #controller;
  #settings;
  #tokens = null;

  constructor({ controller, settings }) {
    this.#controller = controller;
    this.#settings = settings;
    element("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#onButton(event);
    });
    for (const button of document.querySelectorAll("[data-speak]")) button.addEventListener("click", (event) => this.#onButton(event));
    element("stop").addEventListener("click", ({ timeStamp }) => this.stop(timeStamp));
    for (const radio of document.querySelectorAll('input[name="mode"]')) radio.addEventListener("change", () => this.#showMode());
    element("rate").addEventListener("input", () => this.#showRate());
    this.#showMode(); // a browser restores the choices on reload
    this.#showRate();
  }

  get text() {
    return element("text").value.trim();
  }

  set text(text) {
    element("text").value = text;
  }

  speak(askedAtMs) {
    const { text } = this;
    if (text === "") {
      note(element("problem"), "There is no text to speak. Type a sentence first.");
      element("text").focus();
      return;
    }
    this.#tokens?.stop();
    note(element("problem"), null);
    const { config } = this.#settings;
    if (selectedRadio("mode") === "paste") this.#controller.speak({ text, config, askedAtMs });
    else this.#stream(text, config, askedAtMs);
    this.onspeak();
  }

  /** Moves the focus away from the button: the space bar is for barge-in during speech. */
  #onButton({ timeStamp }) {
    this.speak(timeStamp);
    if (this.#controller.isBusy) element("transcript").focus({ preventScroll: true });
  }

  stop(atMs) {
    this.#tokens?.stop();
    this.#controller.stop(atMs);
  }

  #stream(text, config, askedAtMs) {
    this.#controller.begin({ config, askedAtMs });
    const { utterance } = this.#controller;
    const isPresent = () => this.#controller.utterance === utterance && this.#controller.isBusy;
    this.#tokens = streamTokens(text, {
      tokensPerS: Number(element("rate").value),
      onToken: (token) => {
        if (isPresent()) this.#controller.write(token);
        else this.#tokens.stop(); // the utterance has failed
      },
      onDone: () => {
        if (isPresent()) this.#controller.finish();
      },
    });
  }

  #showMode() {
    element("rate-row").hidden = selectedRadio("mode") !== "live";
  }

  #showRate() {
    element("rate-value").textContent = `${element("rate").value} tokens/s`;
  }
}
