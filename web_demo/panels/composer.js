// The text, how it is sent, and the buttons: at once, or token by token as a language model types.

import { chosen, element, note } from "./dom.js";
import { typeTokens } from "../simulation/token-stream.js";

export class Composer {
  /** Called when an utterance begins, inside the reader's gesture. */
  onspeak = () => {};
  #speaker;
  #config;
  #typing = null;

  /** `config()` gives the session.config of the present choices. */
  constructor({ speaker, config }) {
    this.#speaker = speaker;
    this.#config = config;
    element("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#press(event);
    });
    for (const button of document.querySelectorAll("[data-speak]")) button.addEventListener("click", (event) => this.#press(event));
    element("stop").addEventListener("click", ({ timeStamp }) => this.stop(timeStamp));
    for (const radio of document.querySelectorAll('input[name="mode"]')) radio.addEventListener("change", () => this.#showMode());
    element("pace").addEventListener("input", () => this.#showPace());
    this.#showMode(); // a reload keeps what was chosen
    this.#showPace();
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
      note(element("problem"), "There is nothing to say yet. Please type a sentence first.");
      element("text").focus();
      return;
    }
    this.#typing?.stop();
    note(element("problem"), null);
    const config = this.#config();
    if (chosen("mode") === "paste") this.#speaker.speak({ text, config, askedAtMs });
    else this.#type(text, config, askedAtMs);
    this.onspeak();
  }

  /** A button was pressed: from here on the space bar is for barging in, not for pressing it again. */
  #press({ timeStamp }) {
    this.speak(timeStamp);
    if (this.#speaker.isBusy) element("stage").focus({ preventScroll: true });
  }

  stop(atMs) {
    this.#typing?.stop();
    this.#speaker.stop(atMs);
  }

  #type(text, config, askedAtMs) {
    this.#speaker.begin({ config, askedAtMs });
    const { run } = this.#speaker;
    const isOurs = () => this.#speaker.run === run && this.#speaker.isBusy;
    this.#typing = typeTokens(text, {
      tokensPerS: Number(element("pace").value),
      onToken: (token) => {
        if (isOurs()) this.#speaker.write(token);
        else this.#typing.stop(); // it failed meanwhile: text that nobody reads is not typed
      },
      onDone: () => {
        if (isOurs()) this.#speaker.finish();
      },
    });
  }

  #showMode() {
    element("pace-row").hidden = chosen("mode") !== "live";
  }

  #showPace() {
    element("pace-value").textContent = `${element("pace").value} tokens/s`;
  }
}
