// HTTP client: addresses, API key, errors.

import assert from "node:assert/strict";
import { test } from "node:test";

import { HttpApi } from "../../../web_demo/protocol/http-api.js";

class FakeStorage extends Map {
  getItem = (name) => this.get(name) ?? null;
  setItem = (name, value) => this.set(name, value);
  removeItem = (name) => this.delete(name);
}

function api(statuses) {
  const requests = [];
  const storage = new FakeStorage();
  const fetch = async (url, { headers }) => {
    requests.push([url.pathname ?? new URL(url).pathname, headers.Authorization]);
    return { status: statuses[0], ok: statuses.shift() === 200 };
  };
  return { api: new HttpApi({ base: "https://there/demo/", storage, fetch }), requests, storage };
}

test("addresses are relative to the page's, and the WebSocket uses TLS if the page does", () => {
  const { api: it } = api([]);
  assert.equal(it.url("readyz").href, "https://there/demo/readyz");
  assert.equal(it.socketUrl, "wss://there/demo/v1/audio/speech/stream");
});

test("a key is sent in the header only, and stored in the tab only on request", async () => {
  const { api: it, requests, storage } = api([401, 200]);
  let unauthorized = 0;
  it.onunauthorized = () => (unauthorized += 1);
  await it.request("v1/audio/voices");
  assert.equal(unauthorized, 1);
  it.setKey(" secret ", { keep: false });
  await it.request("v1/audio/voices");
  assert.deepEqual(requests, [["/demo/v1/audio/voices", undefined], ["/demo/v1/audio/voices", "Bearer secret"]]);
  assert.equal(unauthorized, 1);
  assert.equal(storage.size, 0);
  it.setKey("secret", { keep: true });
  assert.deepEqual([...storage.values()], ["secret"]);
  it.setKey("", { keep: true });
  assert.equal(storage.size, 0);
});

test("an unreachable server is null, not an exception", async () => {
  const it = new HttpApi({ base: "http://there/", storage: new FakeStorage(), fetch: async () => Promise.reject(new TypeError("no")) });
  assert.equal(await it.request("readyz"), null);
  assert.equal(await it.probe(), null);
  assert.equal(await it.json("v1/models"), null);
});
