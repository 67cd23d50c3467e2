// Interrupting: the space bar, Escape, or a voice at the microphone; and how fast that was.

import { element, note } from "./dom.js";
import { MicrophoneLevel } from "../audio/microphone.js";
import { cutInWords, ms } from "./display-text.js";

const TAKES_SPACE = "input, textarea, select, button, summary, a, [contenteditable], [role=tab]";

export class BargeIn {
  #speaker;
  #microphone;

  /** `stop(atMs)` is what a listener's interruption does. */
  constructor({ speaker, stop }) {
    this.#speaker = speaker;
    this.#microphone = new MicrophoneLevel({
      onlevel: (level) => element("mic-level").style.setProperty("--level", Math.min(1, level * 8).toFixed(3)),
      onspeech: () => {
        if (speaker.isBusy) stop(performance.now());
      },
    });
    document.addEventListener("keydown", (event) => {
      const space = event.key === " " && !event.target.closest(TAKES_SPACE);
      if (!speaker.isBusy || event.repeat || !(space || event.key === "Escape")) return;
      event.preventDefault(); // the page does not scroll as well
      stop(event.timeStamp);
    });
    element("mic").addEventListener("change", () => this.#toggle());
  }

  show() {
    const now = this.#speaker.snapshot;
    const { run } = this.#speaker;
    element("b-stop").textContent = ms(now.silent_after_ms);
    element("b-server").textContent = ms(now.cancelled_after_ms);
    const stopped = run?.outcome === "stopped";
    element("b-heard").textContent = stopped ? `${Array.from(run.heard.heard).length} characters` : "–";
    element("b-unheard").textContent = stopped ? `${Array.from(run.heard.unheard).length} characters` : "–";
    note(element("cut-note"), stopped ? cutInWords(now, run.heard) : null);
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
