// Jitter buffer: target, gaps, fades.

import assert from "node:assert/strict";
import { test } from "node:test";

import { AdaptiveBufferTarget } from "../../../web_demo/audio/buffer-target.js";
import { JitterBuffer } from "../../../web_demo/audio/jitter-buffer.js";
import { seededRandom } from "../../../web_demo/simulation/seeded-random.js";

const BLOCK = 128;
const RATE_HZ = 24000;
const MS = RATE_HZ / 1000;

function tone(samples, hz, rateHz, amplitude = 16000) {
  return Int16Array.from({ length: samples }, (_, i) => Math.round(amplitude * Math.sin((2 * Math.PI * hz * i) / rateHz)));
}

function make(options = {}) {
  const target = new AdaptiveBufferTarget({ minMs: 60 });
  return new JitterBuffer({ inputRateHz: RATE_HZ, outputRateHz: RATE_HZ, target, fadeMs: 5, ...options });
}

function level(samples, value = 16384) {
  return new Int16Array(samples).fill(value);
}

function pull(buffer, frames) {
  const out = new Float32Array(frames);
  buffer.pull(out);
  return out;
}

test("playback begins at the target, with the first sample", () => {
  const buffer = make();
  buffer.push(level(50 * MS));
  assert.ok(pull(buffer, BLOCK).every((sample) => sample === 0));
  assert.equal(buffer.state, "filling");
  buffer.push(level(20 * MS));
  assert.ok(pull(buffer, BLOCK).every((sample) => sample === 0.5));
  assert.equal(buffer.state, "playing");
});

test("a sentence shorter than the target plays when it is complete", () => {
  const buffer = make();
  buffer.push(level(20 * MS));
  buffer.sentenceDone();
  assert.equal(pull(buffer, BLOCK)[0], 0.5);
});

test("after a sentence without audio the next one still waits for the target", () => {
  const buffer = make();
  buffer.sentenceDone();
  buffer.push(level(20 * MS));
  pull(buffer, BLOCK);
  assert.equal(buffer.state, "filling");
});

test("an empty buffer in mid-stream is one gap, counted when audio arrives, and the target grows by the lateness", () => {
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
  assert.ok(Math.abs(stats.buffer_target_ms - (60 + 50 + 20)) < 1, `${stats.buffer_target_ms}`); // with the margin of one packet
});

test("the wait for the target after a gap is not lateness: the target grows by the network's part only", () => {
  const buffer = make();
  buffer.push(level(60 * MS + 16));
  pull(buffer, 80 * MS); // 20 ms late
  buffer.push(level(10 * MS));
  pull(buffer, 30 * MS); // too little to go on with
  buffer.push(level(100 * MS));
  pull(buffer, BLOCK);
  assert.ok(Math.abs(buffer.stats().gap_worst_ms - 50) < 0.1);
  assert.ok(Math.abs(buffer.stats().buffer_target_ms - (60 + 20 + 20)) < 1);
});

test("a wait for text is not a gap and does not change the target", () => {
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
  assert.equal(stats.buffer_target_ms, 60);
});

test("each wait is counted by its own kind: late text, then two late packets", () => {
  const buffer = make();
  const gap = (ms) => {
    pull(buffer, (400 + ms) * MS); // the buffered audio, then silence
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
  assert.ok(Math.abs(stats.buffer_target_ms - (60 + 50 + 20 + 30 + 20)) < 2, `${stats.buffer_target_ms}`);
});

test("late text during playback is not a wait: the next gap counts as an underrun", () => {
  const buffer = make();
  buffer.textStarved(); // before playback
  buffer.push(level(100 * MS));
  pull(buffer, 50 * MS);
  buffer.textStarved();
  pull(buffer, 100 * MS);
  buffer.push(level(200 * MS));
  pull(buffer, BLOCK);
  assert.equal(buffer.stats().underruns, 1);
  assert.equal(buffer.stats().text_starvation_ms, 0);
});

test("an empty buffer after the end is not a gap", () => {
  const buffer = make();
  buffer.push(level(100 * MS));
  buffer.end();
  pull(buffer, 200 * MS);
  assert.equal(buffer.state, "finished");
  assert.equal(buffer.stats().underruns, 0);
  assert.equal(buffer.stats().played_ms, 100);
});

test("a wait that no audio ends is not a gap", () => {
  const buffer = make();
  buffer.push(level(100 * MS));
  pull(buffer, 200 * MS); // all but the filter's look-ahead was played, and the end is not known yet
  buffer.end();
  pull(buffer, BLOCK);
  assert.equal(buffer.state, "finished");
  assert.equal(buffer.stats().underruns, 0);
});

/** The largest step between two samples, including the silence before. */
function largestStep(samples, before = 0) {
  return samples.reduce((worst, sample, i) => Math.max(worst, Math.abs(sample - (i === 0 ? before : samples[i - 1]))), 0);
}

test("gaps, stop and end cause no click: no step is larger than the signal's and the fade's", () => {
  const hz = 200;
  const amplitude = 0.5;
  const signalStep = 2 * amplitude * Math.sin((Math.PI * hz) / RATE_HZ); // the largest step of the sine
  const allowed = signalStep + amplitude / (5 * MS) + 1e-4;
  for (let seed = 1; seed <= 60; seed++) {
    const next = seededRandom(seed);
    const buffer = make();
    const input = tone(12000, hz, RATE_HZ, 16384);
    const played = [];
    let at = 0;
    const stopAt = next() < 0.3 ? 6000 : Infinity;
    while (buffer.state !== "finished") {
      if (next() < 0.12) {
        const packet = input.slice(at, at + 1 + Math.floor(next() * 1500)); // some shorter than a fade
        at += packet.length;
        if (packet.length > 0) buffer.push(packet);
        if (next() < 0.4) buffer.sentenceDone();
        if (at >= input.length) buffer.end(); // at any level, as after a lost connection
      }
      if (played.length > stopAt) buffer.stop();
      played.push(...pull(buffer, BLOCK));
    }
    played.push(0);
    assert.ok(largestStep(played) <= allowed, `seed ${seed}: ${largestStep(played)} > ${allowed}`);
  }
});

test("an utterance that ends in mid-word fades out", () => {
  const buffer = make();
  buffer.push(level(200 * MS));
  pull(buffer, BLOCK);
  buffer.end();
  assert.ok(largestStep(pull(buffer, 300 * MS), 0.5) <= 0.5 / (5 * MS) + 1e-6);
});

test("after stop the fade leads to silence, and late packets are not played", () => {
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

test("every sample is played once and in order, for random arrivals", () => {
  for (let seed = 1; seed <= 50; seed++) {
    const next = seededRandom(seed);
    const buffer = make({ fadeMs: 1 / MS }); // one frame of fade: samples keep their values
    const input = Int16Array.from({ length: 6000 }, (_, i) => i + 1);
    const played = [];
    let at = 0;
    while (buffer.state !== "finished") {
      if (at < input.length && next() < 0.5) {
        const packet = input.slice(at, at + 1 + Math.floor(next() * 900));
        at += packet.length;
        buffer.push(packet);
        if (next() < 0.2) buffer.sentenceDone();
        if (at >= input.length) buffer.end();
      }
      played.push(...pull(buffer, BLOCK));
    }
    const values = played.map((sample) => Math.round(sample * 32768)).filter((sample) => sample !== 0);
    assert.ok(values.every((value, i) => i === 0 || value > values[i - 1]), `seed ${seed}: order`);
    assert.ok(values.length >= input.length - 2 * buffer.stats().underruns - 1, `seed ${seed}: only faded samples are missing`);
    assert.equal(buffer.stats().played_samples, input.length);
  }
});
