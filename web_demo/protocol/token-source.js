// Gets single-use tokens for the socket, in exchange for a key (protocol.md, "Keys and tokens").
//
// For trying a server out: a product keeps the key in its backend, and lets its page ask there.

import { CodedError } from "../errors.js";

/** With the server's code, such as "unauthorized" or "quota_exceeded"; or "unreachable", "bad_answer", "refused". */
export class TokenError extends CodedError {
  constructor(code, message, { status = null, retryAfterS = null } = {}) {
    super(code, message);
    this.status = status;
    this.retryAfterS = retryAfterS;
    this.retryable = status === null || status === 429 || status >= 500;
  }
}

/** A function that gives a fresh token each time, as SpeechClient wants it: null where `key()` has none to offer. */
export function tokenSource({ url, key, fetch = (...request) => globalThis.fetch(...request) }) {
  return async () => {
    const bearer = key().trim();
    if (bearer === "") return null;
    const headers = { Authorization: `Bearer ${bearer}` };
    let response;
    try {
      response = await fetch(url, { method: "POST", headers, cache: "no-store" });
    } catch (error) {
      throw new TokenError("unreachable", `no token could be asked for: ${error.message}`);
    }
    const body = await response.json().catch(() => null); // a proxy's page is no JSON
    if (!response.ok) throw refusal(response, body);
    if (typeof body?.token !== "string") throw new TokenError("bad_answer", "the server's answer holds no token");
    return body.token;
  };
}

function refusal({ status, headers }, body) {
  const seconds = Number.parseFloat(headers.get("Retry-After"));
  return new TokenError(body?.error?.code ?? "refused", body?.error?.message ?? `no token was given (status ${status})`, {
    status,
    retryAfterS: Number.isFinite(seconds) ? seconds : null,
  });
}
