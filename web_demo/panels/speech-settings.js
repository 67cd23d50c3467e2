// Which voice, language, speed and format: the choices that make a session.config.

import { element, make } from "./dom.js";
import { supportedFormats } from "../audio/decoder.js";
import { formatInWords, groupVoices, languageInWords } from "./display-text.js";

const FORMATS = ["pcm", "opus", "pcm_mulaw"];
const FILTERS = ["markdown", "code", "urls", "emoji", "tags"];

export class Voices {
  #voices = [];
  #preferred = "";

  constructor() {
    element("language").addEventListener("change", () => this.#showVoices());
    for (const id of ["language", "format", "speed", "clean"]) element(id).addEventListener("input", () => this.#showChoice());
    supportedFormats().then((formats) => this.#showFormats(formats));
  }

  /** The server's answer to GET /v1/audio/voices, and further languages that it speaks. */
  show({ voices, default: preferred }, languages = []) {
    this.#voices = voices;
    this.#preferred = preferred;
    const told = [...new Set([...voices.map(({ language }) => language), ...languages])].filter((tag) => tag && tag !== "und");
    const chosen = element("language").value;
    element("language").replaceChildren(
      new Option("By the voice", ""),
      ...told.map((tag) => new Option(languageInWords(tag), tag, false, tag === chosen)),
    );
    this.#showVoices();
    this.#showChoice();
  }

  /** Take this voice, once it is listed. */
  choose(name) {
    element("language").value = "";
    this.#preferred = name;
    this.#showVoices();
    element("voice").value = name;
  }

  /** As `session.config` has it.  null puts a field back to the server's default. */
  get config() {
    return {
      voice: element("voice").value || null,
      language: element("language").value || null,
      speed: Number(element("speed").value),
      response_format: element("format").value,
      sample_rate: null,
      text_filters: element("clean").checked ? FILTERS : [],
      word_timestamps: true,
    };
  }

  #showVoices() {
    const language = element("language").value;
    const fitting = this.#voices.filter((voice) => voice.language === language);
    const groups = groupVoices(fitting.length > 0 ? fitting : this.#voices);
    const kept = element("voice").value || this.#preferred;
    element("voice").replaceChildren(
      ...groups.map(({ label, voices }) => {
        const options = voices.map(({ value, label: name }) => new Option(name, value, false, value === kept));
        return make("optgroup", { label }, ...options);
      }),
    );
    if (groups.length === 0) element("voice").append(new Option("Default voice", ""));
    element("voice").disabled = groups.length === 0;
  }

  #showFormats(supported) {
    element("format").replaceChildren(
      ...FORMATS.map((format) => {
        const here = supported.includes(format);
        const option = new Option(here ? formatInWords(format) : `${formatInWords(format)}: not in this browser`, format);
        option.disabled = !here;
        return option;
      }),
    );
    this.#showChoice();
  }

  #showChoice() {
    const { speed, response_format: format } = this.config;
    element("speed-value").textContent = `${speed}×`;
    const language = element("language").selectedOptions[0]?.textContent;
    element("more-now").textContent = `${language} · ${speed}× · ${formatInWords(format)}`;
  }
}
