// Controls for model, voice, language, speed and format: the fields of a session.config.

import { supportedFormats } from "../audio/decoder.js";
import { voicesOf } from "../protocol/models.js";
import { formatLabel, groupVoices, languageLabel } from "./display-text.js";
import { element, make } from "./dom.js";

const FORMATS = ["pcm", "opus", "pcm_mulaw"];
const FILTERS = ["markdown", "code", "urls", "emoji", "tags"];

export class SpeechSettings {
  #models = []; // names
  #answer = { voices: [], default: "" }; // of GET /v1/audio/voices
  #languages = [];

  constructor() {
    element("model").addEventListener("change", () => this.#showLanguages());
    element("language").addEventListener("change", () => this.#showVoices());
    for (const id of ["language", "format", "speed", "clean"]) element(id).addEventListener("input", () => this.#showSummary());
    supportedFormats().then((formats) => this.#showFormats(formats));
  }

  /** Show the server's models, its answer to GET /v1/audio/voices, and languages without a voice of their own. */
  show(models, answer, languages = []) {
    this.#models = models;
    this.#answer = answer;
    this.#languages = languages;
    const selected = element("model").value;
    element("model").replaceChildren(...models.map((name) => new Option(name, name, false, name === selected)));
    element("model").parentElement.hidden = models.length < 2;
    this.#showLanguages();
  }

  /** Select a voice that has just been uploaded. */
  selectVoice(name) {
    element("language").value = "";
    this.#showVoices(name);
  }

  /** The names of all models, the default first. */
  get models() {
    return this.#models;
  }

  /** The name of the selected model. */
  get model() {
    return element("model").value || this.#answer.model;
  }

  /** The fields of `session.config`; null is the server's default. */
  get config() {
    return {
      model: this.#models.length > 1 ? this.model : undefined, // not sent to a server with one model
      voice: element("voice").value || null,
      language: element("language").value || null,
      speed: Number(element("speed").value),
      response_format: element("format").value,
      sample_rate: null,
      text_filters: element("clean").checked ? FILTERS : [],
      word_timestamps: true,
    };
  }

  /** `config` for another model: voice and language are kept only if that model has them. */
  configFor(model) {
    const { config } = this;
    if (model === this.model) return config;
    const { voices } = voicesOf(this.#answer, model);
    const voice = voices.some(({ name }) => name === config.voice) ? config.voice : null;
    const language = voices.some((each) => each.language === config.language) ? config.language : null;
    return { ...config, model, voice, language };
  }

  #showLanguages() {
    const { voices } = voicesOf(this.#answer, this.model);
    const tags = [...new Set([...voices.map(({ language }) => language), ...this.#languages])];
    const selected = element("language").value;
    element("language").replaceChildren(
      new Option("Automatic", ""),
      ...tags.filter((tag) => tag && tag !== "und").map((tag) => new Option(languageLabel(tag), tag, false, tag === selected)),
    );
    this.#showVoices();
    this.#showSummary();
  }

  #showVoices(selected = element("voice").value) {
    const { voices, default: preferred } = voicesOf(this.#answer, this.model);
    const language = element("language").value;
    const matching = voices.filter((voice) => voice.language === language);
    const shown = matching.length > 0 ? matching : voices;
    const select = shown.some(({ name }) => name === selected) ? selected : preferred;
    const groups = groupVoices(shown).map(({ label, voices: group }) =>
      make("optgroup", { label }, ...group.map((each) => new Option(each.label, each.value, false, each.value === select))),
    );
    element("voice").replaceChildren(...groups);
    if (groups.length === 0) element("voice").append(new Option("Default voice", ""));
    element("voice").disabled = groups.length === 0;
  }

  #showFormats(supported) {
    element("format").replaceChildren(
      ...FORMATS.map((format) => {
        const isSupported = supported.includes(format);
        const label = isSupported ? formatLabel(format) : `${formatLabel(format)}: not in this browser`;
        const option = new Option(label, format);
        option.disabled = !isSupported;
        return option;
      }),
    );
    this.#showSummary();
  }

  #showSummary() {
    const { speed, response_format: format } = this.config;
    element("speed-value").textContent = `${speed}×`;
    const language = element("language").selectedOptions[0]?.textContent;
    element("more-now").textContent = `${language} · ${speed}× · ${formatLabel(format)}`;
  }
}
