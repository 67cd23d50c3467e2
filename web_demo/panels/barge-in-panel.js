// Barge-in by space bar, Escape or microphone, and its latency.

import { MicrophoneLevel } from "../audio/microphone.js";
import { ms, stopText } from "./display-text.js";
import { element, note } from "./dom.js";

const USES_SPACE = "input, textarea, select, button, summary, a, [contenteditable], [role=tab]";

export class BargeInPanel {
  #controller;
  #microphone;

  /** `stop(atMs)` stops the speech. */
  constructor({ controller, stop }) {
    this.#controller = controller;
    this.#microphone = new MicrophoneLevel({
      onlevel: (level) => element("mic-level").style.setProperty("--level", Math.min(1, level * 8).toFixed(3)),
      onspeech: () => {
        if (controller.isBusy) stop(performance.now());
      },
    });
    document.addEventListener("keydown", (event) => {
      const space = event.key === " " && !event.target.closest(USES_SPACE);
      if (!controller.isBusy || event.repeat || !(space || event.key === "Escape")) return;
      event.preventDefault(); // or the space bar scrolls the page
      stop(event.timeStamp);
    });
    element("mic").addEventListener("change", () => this.#toggle());
  }

  show() {
    const { snapshot, utterance } = this.#controller;
    element("b-stop").textContent = ms(snapshot.silent_after_ms);
    element("b-server").textContent = ms(snapshot.cancelled_after_ms);
    const split = utterance?.outcome === "stopped" ? utterance.textSplit : null;
    element("b-played").textContent = split ? `${Array.from(split.played).length} characters` : "–";
    element("b-remaining").textContent = split ? `${Array.from(split.remaining).length} characters` : "–";
    note(element("stop-note"), split && stopText(snapshot, split));
  }

  async #toggle() {
    if (!element("mic").checked) {
      this.#microphone.stop();
      element("mic-level").style.setProperty("--level", "0");
      return;
    }
    try {
      await this.#microphone.start();
    } catch (error) {
      element("mic").checked = false;
      element("mic-note").textContent = `No microphone: ${error.message}.`;
    }
  }
}
