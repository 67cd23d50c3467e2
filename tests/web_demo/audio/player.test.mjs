// Player: the AudioWorklet processor and the page's side of it, with fakes of the browser's classes.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

const RATE_HZ = 48000;
const BLOCK = 128;
const BLOCKS_PER_S = RATE_HZ / BLOCK;

// -- AudioWorklet processor ------------------------------------------------------------------------------------------

let Processor;
globalThis.sampleRate = RATE_HZ;
globalThis.currentTime = 0;
globalThis.AudioWorkletProcessor = class {
  port = { posted: [], postMessage: (message) => this.port.posted.push(message) };
};
globalThis.registerProcessor = (_name, found) => (Processor = found);
await import("../../../web_demo/audio/player-worklet.js");

/** A processor; `run(seconds)` returns its output. */
function makeProcessor() {
  globalThis.currentTime = 0;
  const processor = new Processor();
  return {
    send: (message) => processor.port.onmessage({ data: message }),
    posted: processor.port.posted,
    run(seconds) {
      const output = [];
      for (let i = 0; i < Math.round(seconds * BLOCKS_PER_S); i++) {
        const out = new Float32Array(BLOCK);
        assert.equal(processor.process([], [[out]]), true, "the processor stays active");
        output.push(...out);
        globalThis.currentTime += BLOCK / RATE_HZ;
      }
      return output;
    },
  };
}

const level = (seconds, value = 16384) => new Int16Array(seconds * RATE_HZ).fill(value);
const begin = (playbackId) => ({ type: "begin", playbackId, sampleRateHz: RATE_HZ });
const audio = (samples) => ({ type: "audio", samples });

test("before the first utterance the output is silent and nothing is posted", () => {
  const { run, posted } = makeProcessor();
  assert.ok(run(0.5).every((sample) => sample === 0));
  assert.deepEqual(posted, []);
});

test("stats are posted 20 times a second, with the playback id, until shortly after the end", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(7));
  send(audio(level(1)));
  send({ type: "end" });
  run(3);
  assert.ok(posted.length > 15 && posted.length < 30, `${posted.length}`);
  assert.ok(posted.every(({ playback_id }) => playback_id === 7));
  assert.ok(posted.some(({ rms }) => rms > 0.45));
  assert.deepEqual([posted.at(-1).state, posted.at(-1).played_ms, posted.at(-1).rms], ["finished", 1000, 0]);
});

test("the first audible sample is reported, not the noise before it", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(1));
  const samples = level(0.5, 20); // -64 dBFS
  samples.fill(16384, 0.25 * RATE_HZ);
  send(audio(samples));
  run(0.4);
  const { first_audible } = posted.at(-1);
  assert.ok(Math.abs(first_audible.context_time_s - 0.25) < 0.001); // the sinc filter of equal rates is a single 1
  assert.ok(first_audible.rendered_unix_ms > 0);
});

test("after a stop the fade leads to silence, and its end is reported", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(1));
  send(audio(level(2)));
  run(0.5);
  assert.equal(posted.at(-1).silent, null);
  send({ type: "stop" });
  const stoppedAtS = globalThis.currentTime;
  const after = run(0.2);
  const quietFrom = after.findLastIndex((sample) => sample !== 0) + 1;
  assert.ok(quietFrom <= 0.005 * RATE_HZ);
  const { state, silent } = posted.at(-1);
  assert.equal(state, "finished");
  assert.ok(Math.abs(silent.context_time_s - (stoppedAtS + quietFrom / RATE_HZ)) < 1e-6);
});

test("a stop after the end of an utterance reports no silence", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(1));
  send(audio(level(0.1)));
  send({ type: "end" });
  run(0.2);
  send({ type: "stop" });
  run(0.2);
  assert.equal(posted.at(-1).silent, null);
});

test("a new utterance begins during the fade-out of the last one, without a click", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(1));
  send(audio(level(1)));
  const before = run(0.25);
  send(begin(2));
  send(audio(new Int16Array(RATE_HZ)));
  const after = run(0.25);
  const steps = after.map((sample, i) => Math.abs(sample - (i === 0 ? before.at(-1) : after[i - 1])));
  assert.ok(Math.max(...steps) <= 0.5 / (0.005 * RATE_HZ) + 1e-6);
  send({ type: "end" });
  run(1);
  assert.deepEqual([posted.at(-1).playback_id, posted.at(-1).state, posted.at(-1).silent], [2, "finished", null]);
});

test("the next utterance keeps the adapted buffer target", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(1));
  send(audio(level(0.1)));
  run(0.3);
  send(audio(level(0.5)));
  send({ type: "end" });
  run(1);
  const adapted = posted.at(-1).buffer_target_ms;
  assert.ok(adapted > 200);
  send(begin(2));
  send(audio(level(0.1)));
  assert.ok(run(0.1).every((sample) => sample === 0), "0.1 s is below the target");
  assert.equal(posted.at(-1).buffer_target_ms, adapted);
});

test("late text is passed to the jitter buffer", () => {
  const { send, run, posted } = makeProcessor();
  send(begin(1));
  send(audio(level(0.1)));
  run(0.3);
  send({ type: "text-starved" });
  send(audio(level(0.5)));
  run(0.1);
  assert.equal(posted.at(-1).underruns, 0);
  assert.ok(posted.at(-1).text_starvation_ms > 100);
});

// -- Player ----------------------------------------------------------------------------------------------------------

const { Player } = await import("../../../web_demo/audio/player.js");

let context;
let node;
let loaded;

beforeEach(() => {
  globalThis.AudioContext = class {
    state = "suspended";
    currentTime = 0;
    outputLatency = 0.1;
    destination = {};
    audioWorklet = { addModule: () => new Promise((resolve) => (loaded = resolve)) };
    constructor() {
      assert.equal(context, undefined, "only one AudioContext is opened");
      context = this;
    }
    async resume() {
      this.state = "running";
    }
  };
  globalThis.AudioWorkletNode = class {
    port = { sent: [], postMessage: (message, transfer) => this.port.sent.push(structuredClone(message, { transfer })) };
    connect() {}
    constructor() {
      node = this;
    }
  };
});

afterEach(() => {
  context = undefined;
  delete globalThis.AudioContext;
  delete globalThis.AudioWorkletNode;
});

async function player() {
  const made = new Player();
  const ready = made.prepare();
  loaded();
  await ready;
  return made;
}

const report = (stats) => node.port.onmessage({ data: { state: "playing", played_samples: 0, buffered_ms: 0, context_time_s: 0, ...stats } });

test("messages before the worklet has loaded are sent later, and only one context is opened", async () => {
  const made = new Player();
  const ready = made.prepare();
  made.begin(24000);
  made.push(Int16Array.of(1, 2));
  made.prepare();
  loaded();
  await ready;
  assert.deepEqual(node.port.sent.map(({ type }) => type), ["begin", "audio"]);
  assert.deepEqual([...node.port.sent[1].samples], [1, 2]);
  assert.ok(made.isRunning);
});

test("a stop before the worklet has loaded drops the earlier messages", async () => {
  const made = new Player();
  const ready = made.prepare();
  made.begin(24000);
  made.push(Int16Array.of(1));
  made.stop();
  loaded();
  await ready;
  assert.deepEqual(node.port.sent, []);
});

test("samples are transferred, and recorded per utterance", async () => {
  const made = await player();
  assert.equal(made.recording, null);
  made.begin(24000);
  const samples = Int16Array.of(1, 2);
  made.push(samples);
  assert.equal(samples.length, 0, "transferred to the audio thread");
  assert.deepEqual(made.recording.chunks, [Int16Array.of(1, 2)]);
  assert.equal(made.recording.sampleRateHz, 24000);
  made.begin(48000);
  assert.deepEqual(made.recording.chunks, []);
});

test("between two stats the position advances with the device's clock, minus the output latency", async () => {
  const made = await player();
  assert.equal(made.playedSamples(), 0);
  const playback_id = made.begin(24000);
  report({ playback_id, played_samples: 24000, buffered_ms: 500, context_time_s: 2 });
  context.currentTime = 2;
  assert.equal(made.playedSamples(), 24000 - 2400);
  context.currentTime = 2.25;
  assert.equal(made.playedSamples(), 24000 - 2400 + 6000);
  context.currentTime = 9; // never beyond the buffered audio
  assert.equal(made.playedSamples(), 24000 - 2400 + 12000);
});

test("the position is constant in a gap and final at the end, and ignores stats of other utterances", async () => {
  const made = await player();
  const playback_id = made.begin(24000);
  context.currentTime = 9;
  report({ playback_id, state: "filling", played_samples: 24000, buffered_ms: 50, context_time_s: 2 });
  assert.equal(made.playedSamples(), 24000 - 2400);
  report({ playback_id: playback_id - 1, state: "finished", played_samples: 7 });
  assert.equal(made.playedSamples(), 24000 - 2400);
  report({ playback_id, state: "finished", played_samples: 30000 });
  assert.equal(made.playedSamples(), 30000);
  made.begin(24000);
  assert.equal(made.playedSamples(), 0);
});
