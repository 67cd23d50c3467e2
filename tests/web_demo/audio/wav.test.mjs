// WAV file writer.

import assert from "node:assert/strict";
import { test } from "node:test";

import { wavFile } from "../../../web_demo/audio/wav.js";

test("a WAV file has a header of 44 bytes and every sample", async () => {
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

test("a WAV file without samples has a header", () => {
  assert.equal(wavFile([], 8000).size, 44);
});
