// What was spoken, kept and written as a wav file.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Recording } from "../../../web_demo/audio/recording.js";
import { wavFile } from "../../../web_demo/audio/wav.js";

test("a wav file has its header's 44 bytes, and every sample", async () => {
  const file = wavFile([Int16Array.of(1, -2), new Int16Array(0), Int16Array.of(32767)], 24000);
  assert.equal(file.type, "audio/wav");
  const view = new DataView(await file.arrayBuffer());
  const ascii = (at, n) => String.fromCharCode(...new Uint8Array(view.buffer, at, n));
  assert.equal(view.byteLength, 50);
  assert.deepEqual([ascii(0, 4), ascii(8, 8), ascii(36, 4)], ["RIFF", "WAVEfmt ", "data"]);
  assert.deepEqual([view.getUint32(4, true), view.getUint32(16, true), view.getUint32(40, true)], [42, 16, 6]);
  const [format, channels, rate, bytesPerS, align, bits] = [20, 22, 24, 28, 32, 34].map((at) =>
    at === 24 || at === 28 ? view.getUint32(at, true) : view.getUint16(at, true),
  );
  assert.deepEqual([format, channels, rate, bytesPerS, align, bits], [1, 1, 24000, 48000, 2, 16]);
  assert.deepEqual([44, 46, 48].map((at) => view.getInt16(at, true)), [1, -2, 32767]);
});

test("a wav file of nothing is still a wav file; a rate that is none is refused", async () => {
  assert.equal(wavFile([], 8000).size, 44);
  for (const rate of [0, -1, 1.5, undefined]) assert.throws(() => wavFile([], rate), RangeError);
});

test("a recording copies, so that the samples may move away", () => {
  const recording = new Recording(24000);
  const samples = Int16Array.of(1, 2);
  recording.add(samples);
  structuredClone(samples, { transfer: [samples.buffer] });
  assert.deepEqual(recording.chunks, [Int16Array.of(1, 2)]);
});

test("a recording has an end, and says that there was more", () => {
  const recording = new Recording(24000, 10);
  recording.add(Int16Array.of(1, 2, 3));
  assert.equal(recording.truncated, false);
  recording.add(Int16Array.of(4, 5, 6));
  recording.add(Int16Array.of(7));
  assert.deepEqual(recording.chunks.flatMap((chunk) => [...chunk]), [1, 2, 3, 4, 5]);
  assert.equal(recording.truncated, true);
});
