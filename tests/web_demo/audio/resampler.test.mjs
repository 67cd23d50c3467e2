// Resampler: exact sample counts, any packet division, filter quality.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Resampler } from "../../../web_demo/audio/resampler.js";
import { seededRandom } from "../../../web_demo/simulation/seeded-random.js";

const BLOCK = 128;

function tone(samples, hz, rateHz, amplitude = 16000) {
  return Int16Array.from({ length: samples }, (_, i) => Math.round(amplitude * Math.sin((2 * Math.PI * hz * i) / rateHz)));
}

function readAll(resampler, step = BLOCK) {
  const out = [];
  const block = new Float32Array(step);
  for (let n; (n = resampler.read(block)) > 0; ) out.push(...block.subarray(0, n));
  return out;
}

function resampleWhole(samples, fromHz, toHz) {
  const resampler = new Resampler(fromHz, toHz);
  resampler.push(samples);
  resampler.finish();
  return readAll(resampler);
}

const RATES = [[24000, 48000], [24000, 44100], [22050, 48000], [24000, 24000], [48000, 44100], [24000, 16000], [8000, 192000]];

test("any packet division gives the same samples, in the exact number", () => {
  for (const [fromHz, toHz] of RATES) {
    const rates = `${fromHz} -> ${toHz} Hz`;
    const next = seededRandom(fromHz + toHz);
    const input = tone(2000, 440, fromHz);
    const whole = resampleWhole(input, fromHz, toHz);
    assert.equal(whole.length, Math.ceil((input.length * toHz) / fromHz), rates);
    const sliced = new Resampler(fromHz, toHz);
    const out = [];
    const block = new Float32Array(BLOCK);
    for (let at = 0; at < input.length; ) {
      const packet = input.slice(at, at + Math.floor(next() * 300));
      at += packet.length;
      sliced.push(packet);
      const n = sliced.read(block, 1 + Math.floor(next() * BLOCK));
      out.push(...block.subarray(0, n));
    }
    sliced.finish();
    out.push(...readAll(sliced));
    assert.deepEqual(out, whole, rates);
    assert.equal(sliced.consumed, input.length, rates);
  }
});

test("at equal rates the output equals the input, bit for bit", () => {
  const input = Int16Array.from({ length: 500 }, (_, i) => ((i * 7919) % 65536) - 32768);
  assert.deepEqual(resampleWhole(input, 24000, 24000), [...input].map((sample) => sample / 32768));
});

test("a tone keeps its frequency, level and phase, without an image above the input's Nyquist frequency", () => {
  const [fromHz, toHz, hz] = [24000, 48000, 3000];
  const out = resampleWhole(tone(4800, hz, fromHz), fromHz, toHz);
  let worst = 0;
  for (let i = 200; i < out.length - 200; i++) {
    worst = Math.max(worst, Math.abs(out[i] - (16000 / 32768) * Math.sin((2 * Math.PI * hz * i) / toHz)));
  }
  assert.ok(worst < 1e-3, `worst error ${worst}`); // -54 dB relative to the tone; linear interpolation has 2e-2
});

test("a lower output rate does not alias high tones", () => {
  const out = resampleWhole(tone(4800, 11000, 24000), 24000, 16000).slice(100, -100);
  assert.ok(Math.max(...out.map(Math.abs)) < 2e-3);
});

test("invalid rates raise a RangeError", () => {
  assert.throws(() => new Resampler(0, 48000), RangeError);
  assert.throws(() => new Resampler(24000, Number.NaN), RangeError);
});
