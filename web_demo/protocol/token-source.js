// Single-use tokens for the WebSocket, issued for an API key (protocol.md, "Keys and tokens").
//
// For tests of a server: a product keeps the key in its backend, and its page requests tokens there.

import { CodedError } from "../errors.js";

/** Codes: the server's, such as "unauthorized" or "quota_exceeded"; or "unreachable", "bad_answer", "refused". */
export class TokenError extends CodedError {
  constructor(code, message, { status = null, retryAfterS = null } = {}) {
    super(code, message);
    this.status = status;
    this.retryAfterS = retryAfterS;
    this.retryable = status === null || status === 429 || status >= 500;
  }
}

/** A function for SpeechClient that returns a new token each time, or null where `key()` is empty. */
export function tokenSource({ url, key, fetch = (...request) => globalThis.fetch(...request) }) {
  return async () => {
    const bearer = key().trim();
    if (bearer === "") return null;
    const headers = { Authorization: `Bearer ${bearer}` };
    let response;
    try {
      response = await fetch(url, { method: "POST", headers, cache: "no-store" });
    } catch (error) {
      throw new TokenError("unreachable", `the token request failed: ${error.message}`);
    }
    const body = await response.json().catch(() => null); // a proxy may answer with HTML
    if (!response.ok) throw refusal(response, body);
    if (typeof body?.token !== "string") throw new TokenError("bad_answer", "the server's answer has no token");
    return body.token;
  };
}

function refusal({ status, headers }, body) {
  const seconds = Number.parseFloat(headers.get("Retry-After"));
  return new TokenError(body?.error?.code ?? "refused", body?.error?.message ?? `the server refused a token (status ${status})`, {
    status,
    retryAfterS: Number.isFinite(seconds) ? seconds : null,
  });
}
