// HTTP client of the server: addresses, API key, requests.

import { tokenSource } from "./token-source.js";

const STORAGE_NAME = "realtime-tts-key";

export class HttpApi {
  /** Called when the server answers 401: no valid key. */
  onunauthorized = () => {};
  #base;
  #storage;
  #fetch;
  #key;

  /** `base` is the page's address: it may have a path prefix. */
  constructor({ base, storage, fetch = (...request) => globalThis.fetch(...request) }) {
    this.#base = base;
    this.#storage = storage;
    this.#fetch = fetch;
    this.#key = storage.getItem(STORAGE_NAME) ?? "";
  }

  get hasKey() {
    return this.#key !== "";
  }

  /** Kept in memory; in the tab's storage only if the user chose that. */
  setKey(key, { keep }) {
    this.#key = key.trim();
    if (keep && this.hasKey) this.#storage.setItem(STORAGE_NAME, this.#key);
    else this.#storage.removeItem(STORAGE_NAME);
  }

  url(path) {
    return new URL(path, this.#base);
  }

  get socketUrl() {
    const url = this.url("v1/audio/speech/stream");
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    return url.href;
  }

  /** Returns a single-use token for each socket, or null without a key. */
  get token() {
    return tokenSource({ url: this.url("v1/realtime/tokens").href, key: () => this.#key, fetch: this.#fetch });
  }

  /** The response, or null if the server is unreachable. */
  async request(path, options = {}) {
    const headers = { ...options.headers, ...(this.hasKey && { Authorization: `Bearer ${this.#key}` }) };
    const response = await this.#fetch(this.url(path), { cache: "no-store", ...options, headers }).catch(() => null);
    if (response?.status === 401) this.onunauthorized();
    return response;
  }

  /** The JSON of a successful GET, or null. */
  async json(path) {
    const response = await this.request(path);
    return response?.ok ? response.json() : null;
  }

  /** The status of /readyz, or null if the server is unreachable. */
  async probe() {
    return (await this.request("readyz"))?.status ?? null;
  }
}
