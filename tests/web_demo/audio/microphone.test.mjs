// Microphone level and speech onset.

import assert from "node:assert/strict";
import { test } from "node:test";

import { MicrophoneError, MicrophoneLevel, rms, SpeechOnset } from "../../../web_demo/audio/microphone.js";

/** The times of the onsets in levels that are 20 ms apart. */
function onsets(levels, options) {
  const onset = new SpeechOnset({ threshold: 0.1, holdMs: 80, restMs: 200, ...options });
  return levels.flatMap((level, i) => (onset.push(level, 20 * i) ? [20 * i] : []));
}

test("an onset is 80 ms above the threshold, reported once", () => {
  assert.deepEqual(onsets([0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3]), [100]);
  assert.deepEqual(onsets([0.2, 0.2, 0.2, 0.2, 0, 0.2, 0.2, 0.2, 0.2, 0]), [], "clicks are too short");
  assert.deepEqual(onsets(Array(100).fill(0.09)), []);
  assert.deepEqual(onsets(Array(100).fill(Number.NaN)), []);
});

test("a short pause does not end the speech, a long one does", () => {
  const loud = Array(6).fill(0.5);
  assert.deepEqual(onsets([...loud, 0, 0, ...loud]), [80]);
  assert.deepEqual(onsets([...loud, ...Array(12).fill(0), ...loud]), [80, 20 * (6 + 12 + 4)]);
});

test("the level is the root mean square", () => {
  assert.equal(rms(Float32Array.of(0.5, -0.5)), 0.5);
  assert.equal(rms(new Float32Array(0)), 0);
});

class FakeStream {
  input = { stopped: false, stop() { this.stopped = true; } };
  getTracks = () => [this.input];
}

class FakeContext {
  closed = false;
  createAnalyser = () => ({ getFloatTimeDomainData: (samples) => samples.fill(0.5) });
  createMediaStreamSource = () => ({ connect() {} });
  close = async () => void (this.closed = true);
}

test("the level is reported until stop releases the microphone", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const [stream, context, levels] = [new FakeStream(), new FakeContext(), []];
  let constraints;
  const microphone = new MicrophoneLevel({
    onlevel: (level) => levels.push(level),
    onspeech: () => {},
    media: { getUserMedia: async (requested) => ((constraints = requested), stream) },
    openContext: () => context,
  });
  assert.equal(await microphone.start(), true);
  assert.deepEqual(constraints, { audio: { echoCancellation: true, noiseSuppression: true } });
  t.mock.timers.tick(40);
  assert.deepEqual(levels, [0.5, 0.5]);
  microphone.stop();
  t.mock.timers.tick(100);
  assert.equal(levels.length, 2);
  assert.ok(stream.input.stopped && context.closed);
});

test("a permission granted after stop opens nothing", async () => {
  const stream = new FakeStream();
  let allow;
  const microphone = new MicrophoneLevel({
    onspeech: () => {},
    media: { getUserMedia: () => new Promise((resolve) => (allow = resolve)) },
    openContext: () => assert.fail("opened"),
  });
  const started = microphone.start();
  microphone.stop();
  allow(stream);
  assert.equal(await started, false);
  assert.ok(stream.input.stopped);
});

test("each failure is a MicrophoneError, and the stream is released", async () => {
  const refuse = (name) => ({ getUserMedia: () => Promise.reject(Object.assign(new Error("x"), { name })) });
  const stream = new FakeStream();
  const broken = {
    openContext: () => {
      throw new Error("no audio");
    },
  };
  for (const [options, code] of [
    [{ media: undefined }, "unavailable"],
    [{ media: refuse("NotAllowedError") }, "denied"],
    [{ media: refuse("NotFoundError") }, "not_found"],
    [{ media: refuse("NotReadableError") }, "unavailable"],
    [{ media: { getUserMedia: async () => stream }, ...broken }, "unavailable"],
  ]) {
    const microphone = new MicrophoneLevel({ onspeech: () => {}, ...options });
    await assert.rejects(microphone.start(), (error) => error instanceof MicrophoneError && error.code === code);
  }
  assert.ok(stream.input.stopped);
});
