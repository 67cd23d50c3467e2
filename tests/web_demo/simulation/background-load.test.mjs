// Simulated listeners: consecutive utterances, refusals with retries, clean-up.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BackgroundLoad } from "../../../web_demo/simulation/background-load.js";
import { FakeSocket, FakeTimers } from "../fakes.mjs";

const START = { type: "audio.start", sentence_index: 0, format: "pcm", sample_rate: 24000 };
const settle = () => new Promise((resolve) => setImmediate(resolve));

function make(options = {}) {
  const timers = new FakeTimers();
  const sockets = [];
  const load = new BackgroundLoad({
    url: "ws://here/",
    texts: ["One.", "Two.", "Three."],
    openSocket: (...how) => (sockets.push(new FakeSocket(...how)), sockets.at(-1)),
    nowS: () => timers.nowMs / 1000,
    schedule: timers.schedule,
    ...options,
  });
  return { load, sockets, timers };
}

async function open(socket) {
  socket.open();
  await settle(); // for the pending connect()
}

async function speaking(options) {
  const made = make(options);
  made.load.start(1);
  made.timers.advance(0);
  await open(made.sockets[0]);
  return { ...made, socket: made.sockets[0] };
}

/** `seconds` of audio, as one frame. */
const audio = (seconds) => new ArrayBuffer(2 * 24000 * seconds);
const texts = ({ sent }) => sent.filter(({ type }) => type === "input.text").map(({ text }) => text);

test("each listener has its own WebSocket, and they connect one after another", () => {
  const { load, sockets, timers } = make();
  load.start(3);
  timers.advance(0);
  assert.equal(sockets.length, 1);
  timers.advance(1000);
  assert.equal(sockets.length, 3);
  assert.deepEqual([load.figures().asked, load.figures().waiting, load.figures().speaking], [3, 3, 0]);
});

test("the next utterance is requested when the last one has been played, on the same WebSocket", async () => {
  const { load, socket, sockets, timers } = await speaking({ config: { voice: "a" } });
  assert.deepEqual(socket.sent[0], { type: "session.config", response_format: "pcm", stream_audio: true, voice: "a" });
  assert.deepEqual(texts(socket), ["One."]);
  assert.equal(load.figures().speaking, 1);
  socket.receive(START);
  socket.receive(audio(0.5));
  timers.advance(250);
  socket.receive(audio(0.5));
  socket.receive({ type: "session.done" });
  timers.advance(749);
  assert.deepEqual(texts(socket), ["One."]);
  assert.equal(load.figures().speaking, 1);
  timers.advance(1);
  assert.deepEqual(texts(socket), ["One.", "Two."]);
  assert.equal(sockets.length, 1);
  const { finished, failed, underrun_p95_ms, ok_share } = load.figures();
  assert.deepEqual({ finished, failed, underrun_p95_ms, ok_share }, { finished: 1, failed: 0, underrun_p95_ms: 0, ok_share: 1 });
});

test("gaps are counted, and continuity does not apply to an utterance of one packet", async () => {
  const { load, socket, timers } = await speaking();
  const utterance = (stallMs) => {
    socket.receive(START);
    socket.receive(audio(0.5));
    if (stallMs !== null) {
      timers.advance(500 + stallMs);
      socket.receive(audio(0.5));
    }
    socket.receive({ type: "session.done" });
    timers.advance(500);
  };
  utterance(null);
  assert.equal(load.figures().ok_share, null);
  utterance(0);
  utterance(300);
  const { finished, ok_share, underrun_p95_ms } = load.figures();
  assert.equal(finished, 3);
  assert.equal(ok_share, 0.5);
  assert.ok(Math.abs(underrun_p95_ms - 300) < 1e-6);
});

test("the 95th percentile is of the finished utterances", async () => {
  const { load, socket, timers } = await speaking();
  for (let i = 1; i <= 20; i++) {
    socket.receive(START);
    socket.receive(audio(0.5));
    timers.advance(500 + i);
    socket.receive(audio(0.5));
    socket.receive({ type: "session.done" });
    timers.advance(500);
  }
  assert.ok(Math.abs(load.figures().underrun_p95_ms - 19) < 1e-6);
});

test("a refused WebSocket counts as a refusal and is retried", () => {
  const { load, sockets, timers } = make();
  load.start(1);
  timers.advance(0);
  sockets[0].lose(1006);
  assert.deepEqual([load.figures().refused, load.figures().retry_after_s, load.figures().failed], [1, 5, 0]);
  timers.advance(4999);
  assert.equal(sockets.length, 1);
  timers.advance(2501);
  assert.equal(sockets.length, 2);
});

test("an overloaded error, fatal or not, counts as a refusal and is retried", async () => {
  for (const fatal of [true, false]) {
    const { load, socket, sockets, timers } = await speaking();
    socket.receive({ type: "error", code: "overloaded", fatal, retry_after_ms: 2000 });
    if (fatal) socket.lose(1013);
    const { refused, retry_after_s, failed, speaking: now, waiting } = load.figures();
    assert.deepEqual([refused, retry_after_s, failed, now, waiting], [1, 2, 0, 0, 1]);
    assert.equal(socket.readyState, 3);
    timers.advance(1999);
    assert.equal(sockets.length, 1);
    timers.advance(1001);
    assert.equal(sockets.length, 2);
  }
});

test("an utterance that is lost, without audio, or with a failed sentence counts as failed", async () => {
  const ends = [
    (socket) => socket.lose(1011),
    (socket) => socket.receive({ type: "session.done" }),
    (socket) => socket.receive({ type: "error", code: "invalid_config", fatal: false }),
    (socket) => {
      socket.receive({ type: "error", code: "internal_error", fatal: true });
      socket.lose(1011);
    },
    (socket) => {
      socket.receive(START);
      socket.receive(audio(0.1));
      socket.receive({ type: "error", code: "synthesis_failed", sentence_index: 1, fatal: false });
      socket.receive({ type: "session.done" });
    },
  ];
  for (const end of ends) {
    const { load, socket, sockets, timers } = await speaking();
    end(socket);
    const { failed, finished, refused } = load.figures();
    assert.deepEqual({ failed, finished, refused }, { failed: 1, finished: 0, refused: 0 }, String(end));
    timers.advance(10_000);
    assert.ok(sockets.length === 2 || texts(socket).length === 2, "the listener continues");
  }
});

test("a connection that is lost between two utterances is not a failure", async () => {
  const { load, socket, sockets, timers } = await speaking();
  socket.receive(START);
  socket.receive(audio(1));
  socket.receive({ type: "session.done" });
  socket.lose(1001);
  timers.advance(10_000);
  assert.equal(load.figures().failed, 0);
  assert.equal(sockets.length, 2);
});

test("stop closes every WebSocket and timer in every state; fewer listeners close some", async () => {
  const { load, sockets, timers } = make();
  load.start(4);
  timers.advance(1000);
  await open(sockets[0]);
  sockets[1].lose(1006); // waits for its retry
  await open(sockets[2]);
  sockets[2].receive(START);
  sockets[2].receive(audio(1));
  sockets[2].receive({ type: "session.done" }); // plays the rest
  load.start(3);
  assert.equal(sockets[3].readyState, 3); // was still connecting
  load.stop();
  assert.ok(sockets.every(({ readyState }) => readyState === 3));
  assert.equal(timers.pending, 0);
  timers.advance(60_000);
  assert.equal(sockets.length, 4);
  assert.deepEqual([load.figures().asked, load.figures().finished], [0, 1]);
});

test("an invalid API key is a failure, not a refusal", async () => {
  const refused = Object.assign(new Error("no"), { code: "unauthorized", retryable: false });
  const { load, timers } = make({ token: () => Promise.reject(refused) });
  load.start(1);
  timers.advance(0);
  await settle();
  assert.deepEqual([load.figures().failed, load.figures().refused, load.figures().waiting], [1, 0, 1]);
});

test("stop during a token request opens nothing", async () => {
  const { load, sockets, timers } = make({ token: async () => "t" });
  load.start(1);
  timers.advance(0);
  load.stop();
  await settle();
  assert.equal(sockets.length, 0);
});

test("invalid numbers and an empty list of texts raise a RangeError", () => {
  assert.throws(() => make({ texts: [] }), RangeError);
  for (const n of [-1, 1.5, "3"]) assert.throws(() => make().load.start(n), RangeError);
});
