// Single-use tokens, issued for an API key.

import assert from "node:assert/strict";
import { test } from "node:test";

import { TokenError, tokenSource } from "../../../web_demo/protocol/token-source.js";

const answer = (status, body, headers = {}) => async () => new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });

test("each call requests a new token with the key", async () => {
  const requests = [];
  const token = tokenSource({
    url: "/v1/realtime/tokens",
    key: () => " secret ",
    fetch: async (url, { method, headers }) => {
      requests.push([url, method, headers.Authorization]);
      return new Response(JSON.stringify({ token: `t${requests.length}`, expires_at: 1 }));
    },
  });
  assert.deepEqual([await token(), await token()], ["t1", "t2"]);
  assert.deepEqual(requests[0], ["/v1/realtime/tokens", "POST", "Bearer secret"]);
});

test("without a key no token is requested", async () => {
  assert.equal(await tokenSource({ url: "/", key: () => "  ", fetch: () => assert.fail("requested") })(), null);
});

test("a refusal has a code, whether a retry may succeed, and when", async () => {
  const refusals = [
    [answer(401, { error: { code: "unauthorized", message: "no" } }), { code: "unauthorized", status: 401, retryable: false, retryAfterS: null }],
    [answer(429, { error: { code: "quota_exceeded", message: "no" } }, { "Retry-After": "7" }), { code: "quota_exceeded", status: 429, retryable: true, retryAfterS: 7 }],
    [answer(502, "<html>"), { code: "refused", status: 502, retryable: true, retryAfterS: null }],
    [answer(200, {}), { code: "bad_answer", status: null, retryable: true, retryAfterS: null }],
    [() => Promise.reject(new TypeError("offline")), { code: "unreachable", status: null, retryable: true, retryAfterS: null }],
  ];
  for (const [fetch, expected] of refusals) {
    await assert.rejects(tokenSource({ url: "/", key: () => "k", fetch })(), (error) => {
      const { code, status, retryable, retryAfterS } = error;
      assert.deepEqual({ code, status, retryable, retryAfterS }, expected);
      assert.ok(!error.message.includes("Bearer"));
      return error instanceof TokenError;
    });
  }
});
