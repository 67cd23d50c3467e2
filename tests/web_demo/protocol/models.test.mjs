// Models and voices of the server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { modelsOf, voicesOf } from "../../../web_demo/protocol/models.js";

test("the models are the ids of the list, and none without an answer", () => {
  assert.deepEqual(modelsOf({ data: [{ id: "kokoro" }, { id: "kokoro@policy_c", scheduler: "policy_c" }] }), ["kokoro", "kokoro@policy_c"]);
  assert.deepEqual(modelsOf(null), []);
});

test("each model has its own voices and default voice", () => {
  const [a, b] = [{ model: "a", default: "x", voices: [{ name: "x" }] }, { model: "b", default: "y", voices: [{ name: "y" }] }];
  const answer = { ...a, models: [a, b] };
  assert.deepEqual(voicesOf(answer, "a"), { default: "x", voices: a.voices });
  assert.deepEqual(voicesOf(answer, "b"), { default: "y", voices: b.voices });
  assert.deepEqual(voicesOf(answer, "c").voices, []);
});

test("the answer of a server with one model needs no list of models", () => {
  const voices = [{ name: "x" }];
  assert.deepEqual(voicesOf({ model: "a", default: "x", voices }, "a").voices, voices);
  assert.deepEqual(voicesOf({ default: "x", voices }, undefined).voices, voices);
});

test("aliases are no voices of their own", () => {
  const voices = [{ name: "x" }, { name: "nova", alias_of: "x" }];
  assert.deepEqual(voicesOf({ model: "a", default: "x", voices }, "a").voices, [{ name: "x" }]);
});
