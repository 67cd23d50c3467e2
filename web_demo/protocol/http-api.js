// The server as this page reaches it: addresses, the key where one is asked for, and plain HTTP requests.

import { tokenSource } from "./token-source.js";

const KEPT_AS = "realtime-tts-key";

export class Api {
  /** Called when the server does not let us in with the key that we have, or without one. */
  onlocked = () => {};
  #base;
  #storage;
  #fetch;
  #key;

  /** `base`: the page's own address, so that it works behind a path prefix. */
  constructor({ base, storage, fetch = (...request) => globalThis.fetch(...request) }) {
    this.#base = base;
    this.#storage = storage;
    this.#fetch = fetch;
    this.#key = storage.getItem(KEPT_AS) ?? "";
  }

  get hasKey() {
    return this.#key !== "";
  }

  /** In memory; in the tab's own storage only where the reader has asked for that. */
  setKey(key, { keep }) {
    this.#key = key.trim();
    if (keep && this.hasKey) this.#storage.setItem(KEPT_AS, this.#key);
    else this.#storage.removeItem(KEPT_AS);
  }

  url(path) {
    return new URL(path, this.#base);
  }

  socketUrl(scheduler = null) {
    const url = this.url("v1/audio/speech/stream");
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    if (scheduler !== null) url.searchParams.set("scheduler", scheduler);
    return url.href;
  }

  /** A fresh single-use token for each socket, or null where no key was given. */
  get token() {
    return tokenSource({ url: this.url("v1/realtime/tokens").href, key: () => this.#key, fetch: this.#fetch });
  }

  /** The response, or null where the server cannot be reached. */
  async request(path, options = {}) {
    const headers = { ...options.headers, ...(this.hasKey && { Authorization: `Bearer ${this.#key}` }) };
    const response = await this.#fetch(this.url(path), { cache: "no-store", ...options, headers }).catch(() => null);
    if (response?.status === 401) this.onlocked();
    return response;
  }

  /** `/readyz`'s status, or null where nothing answers. */
  async probe() {
    return (await this.request("readyz"))?.status ?? null;
  }
}
