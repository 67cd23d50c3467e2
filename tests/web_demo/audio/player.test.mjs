// The loudspeaker: what the audio thread tells, and what the page makes of it; the browser's parts are stand-ins.

import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

const RATE_HZ = 48000;
const BLOCK = 128;
const BLOCKS_PER_S = RATE_HZ / BLOCK;

// -- The audio thread -------------------------------------------------------------------------------------------------

let Processor;
globalThis.sampleRate = RATE_HZ;
globalThis.currentTime = 0;
globalThis.AudioWorkletProcessor = class {
  port = { posted: [], postMessage: (message) => this.port.posted.push(message) };
};
globalThis.registerProcessor = (_name, found) => (Processor = found);
await import("../../../web_demo/audio/player-worklet.js");

/** The audio thread, run by hand: `run(seconds)` gives what the loudspeaker got. */
function thread() {
  globalThis.currentTime = 0;
  const processor = new Processor();
  return {
    tell: (message) => processor.port.onmessage({ data: message }),
    posted: processor.port.posted,
    run(seconds) {
      const heard = [];
      for (let i = 0; i < Math.round(seconds * BLOCKS_PER_S); i++) {
        const out = new Float32Array(BLOCK);
        assert.equal(processor.process([], [[out]]), true, "the processor lives on");
        heard.push(...out);
        globalThis.currentTime += BLOCK / RATE_HZ;
      }
      return heard;
    },
  };
}

const level = (seconds, value = 16384) => new Int16Array(seconds * RATE_HZ).fill(value);
const begin = (utterance) => ({ type: "begin", utterance, sampleRateHz: RATE_HZ });
const audio = (samples) => ({ type: "audio", samples });

test("before anything was asked for there is silence, and nothing to tell", () => {
  const { run, posted } = thread();
  assert.ok(run(0.5).every((sample) => sample === 0));
  assert.deepEqual(posted, []);
});

test("stats come about 20 times a second, with the utterance's number, and end soon after the sound", () => {
  const { tell, run, posted } = thread();
  tell(begin(7));
  tell(audio(level(1)));
  tell({ type: "end" });
  run(3);
  assert.ok(posted.length > 15 && posted.length < 30, `${posted.length}`);
  assert.ok(posted.every(({ utterance }) => utterance === 7));
  assert.ok(posted.some(({ rms }) => rms > 0.45));
  assert.deepEqual([posted.at(-1).state, posted.at(-1).played_ms, posted.at(-1).rms], ["finished", 1000, 0]);
});

test("the first audible sample is told, not the hiss before it", () => {
  const { tell, run, posted } = thread();
  tell(begin(1));
  const samples = level(0.5, 20); // -64 dBFS
  samples.fill(16384, 0.25 * RATE_HZ);
  tell(audio(samples));
  run(0.4);
  const { first_audible } = posted.at(-1);
  assert.ok(Math.abs(first_audible.context_time_s - 0.25) < 0.001); // the sinc filter of equal rates is a single 1
  assert.ok(first_audible.rendered_unix_ms > 0);
});

test("a stop is silence within the fade, and where it was over is told", () => {
  const { tell, run, posted } = thread();
  tell(begin(1));
  tell(audio(level(2)));
  run(0.5);
  assert.equal(posted.at(-1).silent, null);
  tell({ type: "stop" });
  const stoppedAtS = globalThis.currentTime;
  const after = run(0.2);
  const quietFrom = after.findLastIndex((sample) => sample !== 0) + 1;
  assert.ok(quietFrom <= 0.005 * RATE_HZ);
  const { state, silent } = posted.at(-1);
  assert.equal(state, "finished");
  assert.ok(Math.abs(silent.context_time_s - (stoppedAtS + quietFrom / RATE_HZ)) < 1e-6);
});

test("an utterance that ends by itself was not stopped, also not by a stop that comes later", () => {
  const { tell, run, posted } = thread();
  tell(begin(1));
  tell(audio(level(0.1)));
  tell({ type: "end" });
  run(0.2);
  tell({ type: "stop" });
  run(0.2);
  assert.equal(posted.at(-1).silent, null);
});

test("a new utterance starts while the old one still fades, without a click", () => {
  const { tell, run, posted } = thread();
  tell(begin(1));
  tell(audio(level(1)));
  const before = run(0.25);
  tell(begin(2));
  tell(audio(new Int16Array(RATE_HZ)));
  const after = run(0.25);
  const steps = after.map((sample, i) => Math.abs(sample - (i === 0 ? before.at(-1) : after[i - 1])));
  assert.ok(Math.max(...steps) <= 0.5 / (0.005 * RATE_HZ) + 1e-6);
  tell({ type: "end" });
  run(1);
  assert.deepEqual([posted.at(-1).utterance, posted.at(-1).state, posted.at(-1).silent], [2, "finished", null]);
});

test("what one utterance taught about the line, the next one knows", () => {
  const { tell, run, posted } = thread();
  tell(begin(1));
  tell(audio(level(0.1)));
  run(0.3);
  tell(audio(level(0.5)));
  tell({ type: "end" });
  run(1);
  const learned = posted.at(-1).cushion_ms;
  assert.ok(learned > 200);
  tell(begin(2));
  tell(audio(level(0.1)));
  assert.ok(run(0.1).every((sample) => sample === 0), "0.1 s is no longer enough to begin with");
  assert.equal(posted.at(-1).cushion_ms, learned);
});

test("late text is told to the buffer", () => {
  const { tell, run, posted } = thread();
  tell(begin(1));
  tell(audio(level(0.1)));
  run(0.3);
  tell({ type: "text-starved" });
  tell(audio(level(0.5)));
  run(0.1);
  assert.equal(posted.at(-1).underruns, 0);
  assert.ok(posted.at(-1).text_starvation_ms > 100);
});

// -- The page's side --------------------------------------------------------------------------------------------------

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
      assert.equal(context, undefined, "there is one AudioContext");
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

test("what is said while the audio thread still loads is not lost, and there is one context", async () => {
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

test("a stop before the audio thread has loaded leaves nothing to be heard", async () => {
  const made = new Player();
  const ready = made.prepare();
  made.begin(24000);
  made.push(Int16Array.of(1));
  made.stop();
  loaded();
  await ready;
  assert.deepEqual(node.port.sent, []);
});

test("the samples move away, and stay to be saved, each utterance for itself", async () => {
  const made = await player();
  assert.equal(made.recording, null);
  made.begin(24000);
  const samples = Int16Array.of(1, 2);
  made.push(samples);
  assert.equal(samples.length, 0, "moved to the audio thread");
  assert.deepEqual(made.recording.chunks, [Int16Array.of(1, 2)]);
  assert.equal(made.recording.sampleRateHz, 24000);
  made.begin(48000);
  assert.deepEqual(made.recording.chunks, []);
});

test("between two stats the playhead goes on with the device's clock, less what is on its way to the ear", async () => {
  const made = await player();
  assert.equal(made.playedSamples(), 0);
  const utterance = made.begin(24000);
  report({ utterance, played_samples: 24000, buffered_ms: 500, context_time_s: 2 });
  context.currentTime = 2;
  assert.equal(made.playedSamples(), 24000 - 2400);
  context.currentTime = 2.25;
  assert.equal(made.playedSamples(), 24000 - 2400 + 6000);
  context.currentTime = 9; // no stats for long: never farther than what there was to play
  assert.equal(made.playedSamples(), 24000 - 2400 + 12000);
});

test("in a gap the playhead stands, at the end it has arrived, and another utterance's stats move nothing", async () => {
  const made = await player();
  const utterance = made.begin(24000);
  context.currentTime = 9;
  report({ utterance, state: "filling", played_samples: 24000, buffered_ms: 50, context_time_s: 2 });
  assert.equal(made.playedSamples(), 24000 - 2400);
  report({ utterance: utterance - 1, state: "finished", played_samples: 7 });
  assert.equal(made.playedSamples(), 24000 - 2400);
  report({ utterance, state: "finished", played_samples: 30000 });
  assert.equal(made.playedSamples(), 30000);
  made.begin(24000);
  assert.equal(made.playedSamples(), 0);
});
