// Recording of an utterance.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Recording } from "../../../web_demo/audio/recording.js";

test("a recording copies the samples, so that they can be transferred", () => {
  const recording = new Recording(24000);
  const samples = Int16Array.of(1, 2);
  recording.add(samples);
  structuredClone(samples, { transfer: [samples.buffer] });
  assert.deepEqual(recording.chunks, [Int16Array.of(1, 2)]);
});

test("a recording has a size limit and reports that it is truncated", () => {
  const recording = new Recording(24000, 10);
  recording.add(Int16Array.of(1, 2, 3));
  assert.equal(recording.truncated, false);
  recording.add(Int16Array.of(4, 5, 6));
  recording.add(Int16Array.of(7));
  assert.deepEqual(recording.chunks.flatMap((chunk) => [...chunk]), [1, 2, 3, 4, 5]);
  assert.equal(recording.truncated, true);
});
