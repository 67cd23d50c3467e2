// Difficult texts.

import assert from "node:assert/strict";
import { test } from "node:test";

import { DIFFICULT_TEXTS } from "../../../web_demo/simulation/difficult-texts.js";

test("each text has what its name says", () => {
  const by = Object.fromEntries(DIFFICULT_TEXTS.map(({ name, text }) => [name, text]));
  assert.equal(Object.keys(by).length, DIFFICULT_TEXTS.length);
  assert.match(by.Code, /```/);
  assert.match(by["Thoughts and tags"], /<think>.*<\/think>/);
  assert.match(by.Emoji, /\u200d/);
  assert.ok(by["One long sentence"].length > 300);
});
