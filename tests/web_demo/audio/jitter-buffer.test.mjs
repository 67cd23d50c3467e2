// The audio path's pure logic: exact resampling, the cushion, gaps, fades.

import assert from "node:assert/strict";
import { test } from "node:test";

import { AdaptiveCushion } from "../../../web_demo/audio/buffer-target.js";
import { JitterBuffer } from "../../../web_demo/audio/jitter-buffer.js";
import { seeded as random } from "../../../web_demo/simulation/seeded-random.js";
import { Resampler } from "../../../web_demo/audio/resampler.js";

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

for (const [fromHz, toHz] of RATES) {
  test(`${fromHz} -> ${toHz} Hz: any slicing gives the same samples, and exactly as many as the ratio says`, () => {
    const next = random(fromHz + toHz);
    const input = tone(2000, 440, fromHz);
    const whole = resampleWhole(input, fromHz, toHz);
    assert.equal(whole.length, Math.ceil((input.length * toHz) / fromHz));
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
    assert.deepEqual(out, whole);
    assert.equal(sliced.consumed, input.length);
  });
}

test("at equal rates the output is the input, bit for bit", () => {
  const input = Int16Array.from({ length: 500 }, (_, i) => ((i * 7919) % 65536) - 32768);
  assert.deepEqual(resampleWhole(input, 24000, 24000), [...input].map((sample) => sample / 32768));
});

test("a tone keeps its pitch, level and phase, with no image above the old Nyquist frequency", () => {
  const [fromHz, toHz, hz] = [24000, 48000, 3000];
  const out = resampleWhole(tone(4800, hz, fromHz), fromHz, toHz);
  let worst = 0;
  for (let i = 200; i < out.length - 200; i++) {
    worst = Math.max(worst, Math.abs(out[i] - (16000 / 32768) * Math.sin((2 * Math.PI * hz * i) / toHz)));
  }
  assert.ok(worst < 1e-3, `worst error ${worst}`); // -54 dB of the tone; linear interpolation is at 2e-2
});

test("a slower device does not fold high tones down", () => {
  const out = resampleWhole(tone(4800, 11000, 24000), 24000, 16000).slice(100, -100);
  assert.ok(Math.max(...out.map(Math.abs)) < 2e-3);
});

test("rates that make no sense are refused", () => {
  assert.throws(() => new Resampler(0, 48000), RangeError);
  assert.throws(() => new Resampler(24000, Number.NaN), RangeError);
});

// -- Jitter buffer --------------------------------------------------------------------------------------------------

const RATE_HZ = 24000;
const MS = RATE_HZ / 1000;

function make(options = {}) {
  const cushion = new AdaptiveCushion({ leastMs: 60 });
  return new JitterBuffer({ inputRateHz: RATE_HZ, outputRateHz: RATE_HZ, cushion, fadeMs: 5, ...options });
}

function level(samples, value = 16384) {
  return new Int16Array(samples).fill(value);
}

function pull(buffer, frames) {
  const out = new Float32Array(frames);
  buffer.pull(out);
  return out;
}

test("nothing is heard before the cushion is full, then all of it, from its first sample", () => {
  const buffer = make();
  buffer.push(level(50 * MS));
  assert.ok(pull(buffer, BLOCK).every((sample) => sample === 0));
  assert.equal(buffer.state, "filling");
  buffer.push(level(20 * MS));
  assert.ok(pull(buffer, BLOCK).every((sample) => sample === 0.5));
  assert.equal(buffer.state, "playing");
});

test("a sentence shorter than the cushion plays as soon as it is complete", () => {
  const buffer = make();
  buffer.push(level(20 * MS));
  buffer.sentenceDone();
  assert.equal(pull(buffer, BLOCK)[0], 0.5);
});

test("a sentence without audio does not spend the next one's cushion", () => {
  const buffer = make();
  buffer.sentenceDone();
  buffer.push(level(20 * MS));
  pull(buffer, BLOCK);
  assert.equal(buffer.state, "filling");
});

test("running dry in mid-stream is one gap, counted when audio ends it, and the cushion grows by what was missed", () => {
  const buffer = make();
  buffer.push(level(60 * MS + 16));
  pull(buffer, 100 * MS);
  assert.equal(buffer.state, "filling");
  assert.equal(buffer.stats().underruns, 0);
  assert.ok(Math.abs(buffer.stats().gap_open_ms - 40) < 0.1);
  pull(buffer, 10 * MS);
  buffer.push(level(130 * MS));
  pull(buffer, BLOCK);
  const stats = buffer.stats();
  assert.equal(stats.state, "playing");
  assert.equal(stats.underruns, 1);
  assert.ok(Math.abs(stats.gap_worst_ms - 50) < 0.1);
  assert.equal(stats.gap_open_ms, 0);
  assert.ok(Math.abs(stats.cushion_ms - (60 + 50 + 20)) < 1, `${stats.cushion_ms}`); // and a packet more
});

test("waiting for the cushion after a gap is not lateness: the cushion grows by the line's part alone", () => {
  const buffer = make();
  buffer.push(level(60 * MS + 16));
  pull(buffer, 80 * MS); // 20 ms late
  buffer.push(level(10 * MS));
  pull(buffer, 30 * MS); // too little to go on with
  buffer.push(level(100 * MS));
  pull(buffer, BLOCK);
  assert.ok(Math.abs(buffer.stats().gap_worst_ms - 50) < 0.1);
  assert.ok(Math.abs(buffer.stats().cushion_ms - (60 + 20 + 20)) < 1);
});

test("a wait for text that had not been written is no gap, and teaches the cushion nothing", () => {
  const buffer = make();
  buffer.push(level(100 * MS));
  pull(buffer, 400 * MS);
  buffer.textStarved();
  buffer.push(level(100 * MS));
  pull(buffer, BLOCK);
  const stats = buffer.stats();
  assert.equal(stats.state, "playing");
  assert.equal(stats.underruns, 0);
  assert.equal(stats.gap_worst_ms, 0);
  assert.equal(stats.gap_open_ms, 0);
  assert.ok(Math.abs(stats.text_starvation_ms - 300) < 1);
  assert.equal(stats.cushion_ms, 60);
});

test("each gap is judged for itself: late text, then a late line, then a later one", () => {
  const buffer = make();
  const gap = (ms) => {
    pull(buffer, (400 + ms) * MS); // all that is buffered, and then silence
    buffer.push(level(400 * MS));
  };
  buffer.push(level(400 * MS));
  pull(buffer, 500 * MS);
  buffer.textStarved();
  buffer.push(level(400 * MS));
  gap(50);
  gap(30);
  pull(buffer, BLOCK);
  const stats = buffer.stats();
  assert.equal(stats.underruns, 2);
  assert.ok(Math.abs(stats.text_starvation_ms - 100) < 1);
  assert.ok(Math.abs(stats.cushion_ms - (60 + 50 + 20 + 30 + 20)) < 2, `${stats.cushion_ms}`);
});

test("late text while there is still sound to hear starves nobody: the next gap counts", () => {
  const buffer = make();
  buffer.textStarved(); // nothing has been heard yet
  buffer.push(level(100 * MS));
  pull(buffer, 50 * MS);
  buffer.textStarved();
  pull(buffer, 100 * MS);
  buffer.push(level(200 * MS));
  pull(buffer, BLOCK);
  assert.equal(buffer.stats().underruns, 1);
  assert.equal(buffer.stats().text_starvation_ms, 0);
});

test("running dry after the end is the end, not a gap", () => {
  const buffer = make();
  buffer.push(level(100 * MS));
  buffer.end();
  pull(buffer, 200 * MS);
  assert.equal(buffer.state, "finished");
  assert.equal(buffer.stats().underruns, 0);
  assert.equal(buffer.stats().played_ms, 100);
});

test("a wait that no audio ends is no gap", () => {
  const buffer = make();
  buffer.push(level(100 * MS));
  pull(buffer, 200 * MS); // all but the filter's look-ahead has been heard, and the end is not yet known
  buffer.end();
  pull(buffer, BLOCK);
  assert.equal(buffer.state, "finished");
  assert.equal(buffer.stats().underruns, 0);
});

/** The greatest step from one sample to the next, from the silence before to the silence after. */
function greatestStep(samples, before = 0) {
  return samples.reduce((worst, sample, i) => Math.max(worst, Math.abs(sample - (i === 0 ? before : samples[i - 1]))), 0);
}

test("neither gaps, nor a stop, nor the end make a click: no step is larger than the signal's own and the fade's", () => {
  const hz = 200;
  const amplitude = 0.5;
  const own = 2 * amplitude * Math.sin((Math.PI * hz) / RATE_HZ); // of a sine, from one sample to the next
  const allowed = own + amplitude / (5 * MS) + 1e-4;
  for (let seed = 1; seed <= 60; seed++) {
    const next = random(seed);
    const buffer = make();
    const input = tone(12000, hz, RATE_HZ, 16384);
    const heard = [];
    let at = 0;
    const stopAt = next() < 0.3 ? 6000 : Infinity;
    while (buffer.state !== "finished") {
      if (next() < 0.12) {
        const packet = input.slice(at, at + 1 + Math.floor(next() * 1500)); // some shorter than a fade
        at += packet.length;
        if (packet.length > 0) buffer.push(packet);
        if (next() < 0.4) buffer.sentenceDone();
        if (at >= input.length) buffer.end(); // at any level: the connection may be lost in the midst of a word
      }
      if (heard.length > stopAt) buffer.stop();
      heard.push(...pull(buffer, BLOCK));
    }
    heard.push(0);
    assert.ok(greatestStep(heard) <= allowed, `seed ${seed}: ${greatestStep(heard)} > ${allowed}`);
  }
});

test("an utterance cut off in mid-word ends in a fade", () => {
  const buffer = make();
  buffer.push(level(200 * MS));
  pull(buffer, BLOCK);
  buffer.end();
  assert.ok(greatestStep(pull(buffer, 300 * MS), 0.5) <= 0.5 / (5 * MS) + 1e-6);
});

test("stop is silence within the fade, whatever is buffered, and late packets stay unheard", () => {
  const buffer = make();
  buffer.push(level(5000 * MS));
  pull(buffer, BLOCK);
  buffer.stop();
  const out = pull(buffer, 10 * MS);
  assert.ok(out.subarray(5 * MS).every((sample) => sample === 0));
  buffer.push(level(1000));
  assert.ok(pull(buffer, BLOCK).every((sample) => sample === 0));
  assert.equal(buffer.stats().buffered_ms, 0);
});

test("whatever the arrival, every sample is heard once and in order", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const next = random(seed);
    const buffer = make({ fadeMs: 1 / MS }); // one frame of fade: samples keep their values
    const input = Int16Array.from({ length: 6000 }, (_, i) => i + 1);
    const heard = [];
    let at = 0;
    while (buffer.state !== "finished") {
      if (at < input.length && next() < 0.5) {
        const packet = input.slice(at, at + 1 + Math.floor(next() * 900));
        at += packet.length;
        buffer.push(packet);
        if (next() < 0.2) buffer.sentenceDone();
        if (at >= input.length) buffer.end();
      }
      heard.push(...pull(buffer, BLOCK));
    }
    const values = heard.map((sample) => Math.round(sample * 32768)).filter((sample) => sample !== 0);
    assert.ok(values.every((value, i) => i === 0 || value > values[i - 1]), `seed ${seed}: order`);
    assert.ok(values.length >= input.length - 2 * buffer.stats().underruns - 1, `seed ${seed}: nothing is lost but the fades`);
    assert.equal(buffer.stats().played_samples, input.length);
  }
});
