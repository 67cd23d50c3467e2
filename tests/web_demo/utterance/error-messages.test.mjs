// Error messages in plain words.

import assert from "node:assert/strict";
import { test } from "node:test";

import { closeMessage, errorMessage, unreachableMessage } from "../../../web_demo/utterance/error-messages.js";

test("known errors have plain text, unknown ones the server's own", () => {
  assert.match(errorMessage({ code: "overloaded", message: "x" }), /busy/);
  assert.match(errorMessage({ code: "overloaded", message: "x", retry_after_ms: 1200 }), /in 2 s/);
  assert.equal(errorMessage({ code: "brand_new", message: "Its own words." }), "Its own words.");
  assert.match(closeMessage({ code: 1012 }), /restarting/);
  assert.match(unreachableMessage(429), /429/);
});
