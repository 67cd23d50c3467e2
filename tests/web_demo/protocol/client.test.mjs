// Client of the wire protocol, with a fake WebSocket.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechClient, SpeechClientError } from "../../../web_demo/protocol/client.js";
import { ImpairedNetwork } from "../../../web_demo/simulation/network-impairment.js";
import { FakeSocket, FakeTimers } from "../fakes.mjs";

const EVENTS = ["open", "audio.start", "audio", "audio.cancelled", "session.done", "error", "closed"];
const START = { type: "audio.start", sentence_index: 0, format: "pcm", sample_rate: 24000, utterance_index: 0 };

function make(options = {}) {
  const timers = new FakeTimers();
  const sockets = [];
  const events = [];
  const states = [];
  const client = new SpeechClient({
    url: "ws://here/",
    openSocket: (...how) => (sockets.push(new FakeSocket(...how)), sockets.at(-1)),
    nowS: () => timers.nowMs / 1000,
    schedule: timers.schedule,
    random: () => 0.5,
    ...options,
  });
  for (const type of EVENTS) client.on(type, (detail) => events.push([type, detail]));
  client.on("state", ({ state }) => states.push(state));
  return { client, sockets, events, states, timers };
}

async function connected(options) {
  const made = make(options);
  const opened = made.client.connect({ voice: "one" });
  await settle();
  made.sockets[0].open();
  assert.equal(await opened, true);
  return { ...made, socket: made.sockets[0] };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));
const types = (events) => events.map(([type]) => type);
const audio = (...samples) => Int16Array.of(...samples).buffer;

// -- Sending ---------------------------------------------------------------------------------------------------------

test("connect opens a connection and sends the config, then the messages sent meanwhile", async () => {
  const { client, sockets, states } = make();
  const opened = client.connect({ voice: "one" });
  client.sendText("Hi.", { contextId: "a" });
  client.done({ contextId: "a" });
  assert.deepEqual(sockets[0].sent, []);
  sockets[0].open();
  assert.equal(await opened, true);
  assert.deepEqual(sockets[0].sent, [
    { type: "session.config", response_format: "pcm", stream_audio: true, voice: "one" },
    { type: "input.text", text: "Hi.", context_id: "a" },
    { type: "input.done", context_id: "a" },
  ]);
  assert.deepEqual(states, ["connecting", "open"]);
});

test("on an open connection connect only sends the changed config", async () => {
  const { client, sockets, socket } = await connected();
  assert.equal(await client.connect({ speed: 2 }), true);
  assert.equal(sockets.length, 1);
  assert.deepEqual(socket.sent.at(-1), { type: "session.config", speed: 2 });
});

test("without a connection every send raises a SpeechClientError", () => {
  const { client } = make();
  for (const send of [() => client.sendText("x"), () => client.done(), () => client.cancel()]) {
    assert.throws(send, (error) => error instanceof SpeechClientError && error.code === "not_connected");
  }
  assert.doesNotThrow(() => client.reportPlayback({ playedMs: 1 }));
});

test("text that is not a string raises a TypeError and is not sent", async () => {
  const { client, socket } = await connected();
  assert.throws(() => client.sendText(7), TypeError);
  assert.equal(socket.sent.length, 1);
});

test("playback reports omit unknown fields", async () => {
  const { client, socket } = await connected();
  client.reportPlayback({ playedMs: 1240, bufferedMs: 300, underruns: 0, contextId: "a" });
  client.reportPlayback({ playedMs: 5 });
  assert.deepEqual(socket.sent.slice(1), [
    { type: "playback.report", context_id: "a", played_ms: 1240, buffered_ms: 300, underruns: 0 },
    { type: "playback.report", played_ms: 5 },
  ]);
});

// -- Receiving -------------------------------------------------------------------------------------------------------

test("an audio event has its bytes, its audio.start and its arrival time", async () => {
  const { socket, events, timers } = await connected();
  timers.advance(5000);
  socket.receive({ ...START, context_id: "a" });
  socket.receive(audio(1, -2, 3));
  const [type, received] = events.at(-1);
  assert.equal(type, "audio");
  assert.deepEqual([...new Int16Array(received.bytes.buffer)], [1, -2, 3]);
  assert.deepEqual([received.start.context_id, received.arrived_at_s], ["a", 5]);
});

test("unknown types and fields are ignored, and no message can imitate an event of the client", async () => {
  const { socket, events } = await connected();
  socket.receive({ type: "something.new", x: 1 });
  socket.receive({ type: "audio", x: 1 });
  socket.receive({ type: "closed" });
  socket.receive({ type: "session.done", total_sentences: 0, y: 2 });
  assert.deepEqual(types(events), ["open", "session.done"]);
});

test("a message that violates the protocol closes the connection with an error", async () => {
  for (const bad of [[START, new ArrayBuffer(3)], ["{"], ["7"], ["null"], [audio(1)]]) {
    const { client, socket, events } = await connected();
    for (const each of bad) {
      if (typeof each === "string") socket.onmessage({ data: each });
      else socket.receive(each);
    }
    assert.equal(events.at(-1)[1].code, "bad_server_message");
    assert.equal(client.state, "closed");
    assert.equal(socket.readyState, 3);
  }
});

test("every message is an event, binary ones with their size", async () => {
  const { client, sockets } = make();
  const seen = [];
  client.on("message", ({ direction, data }) => seen.push([direction, data.type ?? data.bytes]));
  client.connect();
  client.sendText("Hi.");
  sockets[0].open();
  sockets[0].receive(START);
  sockets[0].receive(audio(1, 2));
  assert.deepEqual(seen, [["out", "session.config"], ["out", "input.text"], ["in", "audio.start"], ["in", 4]]);
});

// -- Barge-in --------------------------------------------------------------------------------------------------------

test("cancel keeps the connection and drops the late audio", async () => {
  const { client, socket, events } = await connected();
  client.sendText("A long story.", { contextId: "a" });
  socket.receive({ ...START, context_id: "a" });
  socket.receive(audio(1));
  client.cancel({ contextId: "a", playbackOffsetMs: 1240 });
  assert.deepEqual(socket.sent.at(-1), { type: "input.cancel", context_id: "a", playback_offset_ms: 1240 });
  socket.receive(audio(2));
  socket.receive({ type: "audio.cancelled", context_id: "a", text_spoken: "A long" });
  socket.receive({ type: "session.done", context_id: "a", reason: "cancelled" });
  assert.deepEqual(types(events), ["open", "audio.start", "audio", "audio.cancelled", "session.done"]);
  assert.ok(client.isOpen);
  client.sendText("Another.", { contextId: "a" });
  socket.receive({ ...START, context_id: "a", utterance_index: 1 });
  socket.receive(audio(3));
  assert.equal(types(events).at(-1), "audio");
});

test("a cancel drops audio of its own context only", async () => {
  const { client, socket, events } = await connected();
  client.cancel({ contextId: "a" });
  socket.receive({ ...START, context_id: "b" });
  socket.receive(audio(1));
  assert.equal(types(events).at(-1), "audio");
});

test("two cancels in a row wait for two answers", async () => {
  const { client, socket, events } = await connected();
  client.sendText("One.");
  client.cancel({});
  client.sendText("Two.");
  client.cancel({});
  socket.receive({ type: "audio.cancelled" });
  socket.receive(START);
  socket.receive(audio(1)); // of the second text, which is cancelled too
  socket.receive({ type: "audio.cancelled" });
  assert.deepEqual(types(events), ["open", "audio.cancelled", "audio.start", "audio.cancelled"]);
});

// -- Losing the connection -------------------------------------------------------------------------------------------

test("after a loss it reconnects with its config, and sends no text again", async () => {
  const { client, sockets, socket, events, states, timers } = await connected();
  client.sendText("Half of a sen");
  socket.lose(1006);
  assert.deepEqual(events.at(-1), ["closed", { code: 1006, reason: "", opened: true }]);
  assert.equal(client.state, "reconnecting");
  assert.throws(() => client.sendText("tence."), SpeechClientError);
  timers.advance(499);
  assert.equal(sockets.length, 1);
  timers.advance(1);
  sockets[1].open();
  assert.deepEqual(sockets[1].sent, [{ type: "session.config", response_format: "pcm", stream_audio: true, voice: "one" }]);
  assert.deepEqual(states, ["connecting", "open", "reconnecting", "open"]);
});

test("attempts to reconnect are limited in number, with growing delays, and leave no timer", async () => {
  const { client, sockets, socket, events, timers } = await connected();
  const triedAtMs = [];
  socket.lose(1011);
  while (client.state === "reconnecting") {
    const before = sockets.length;
    timers.advance(10);
    if (sockets.length === before) continue;
    triedAtMs.push(timers.nowMs);
    sockets.at(-1).lose(1006);
  }
  assert.deepEqual(triedAtMs, [500, 1500, 3500, 7500, 15500, 23500]);
  assert.equal(client.state, "closed");
  assert.equal(timers.pending, 0);
});

test("attempts stay limited if the server accepts and closes each connection", async () => {
  const { client, sockets, socket, timers } = await connected();
  socket.lose(1011);
  for (let i = 0; i < 50 && client.state === "reconnecting"; i++) {
    timers.advance(10_000);
    sockets.at(-1).open();
    sockets.at(-1).lose(1011);
  }
  assert.equal(client.state, "closed");
  assert.equal(sockets.length, 7);
});

test("after a stable connection the backoff restarts", async () => {
  const { client, sockets, socket, timers } = await connected();
  timers.advance(10_000);
  socket.lose(1006);
  timers.advance(500);
  sockets[1].open();
  timers.advance(10_000);
  sockets[1].lose(1006);
  timers.advance(500);
  assert.equal(sockets.length, 3);
  assert.equal(client.state, "reconnecting");
});

test("final close codes are not followed by a reconnect", async () => {
  for (const code of [1000, 1001, 1007, 1008, 1009]) {
    const { client, socket, timers } = await connected();
    socket.lose(code);
    assert.equal(client.state, "closed", String(code));
    assert.equal(timers.pending, 0);
  }
});

test("a reconnect waits for the server's retry_after_ms", async () => {
  const { sockets, socket, timers } = await connected();
  socket.receive({ type: "error", code: "overloaded", fatal: true, retry_after_ms: 7000 });
  socket.lose(1013);
  timers.advance(6999);
  assert.equal(sockets.length, 1);
  timers.advance(1);
  assert.equal(sockets.length, 2);
});

test("a first connection that fails is not retried", async () => {
  const { client, sockets, events, timers } = make();
  const opened = client.connect();
  sockets[0].lose(1006);
  assert.equal(await opened, false);
  assert.deepEqual(events, [["closed", { code: 1006, reason: "", opened: false }]]);
  assert.equal(timers.pending, 0);
});

test("close ends the socket, the timer and the pending connect calls", async () => {
  const opening = make();
  const opened = opening.client.connect();
  opening.client.close();
  assert.equal(await opened, false);
  assert.equal(opening.sockets[0].closedWith, 1000);
  opening.sockets[0].open();
  assert.deepEqual(opening.sockets[0].sent, []);
  const lost = await connected();
  lost.socket.lose(1006);
  lost.client.close();
  assert.equal(lost.timers.pending, 0);
  const open = await connected();
  open.socket.receive(START);
  open.client.close();
  open.socket.receive(audio(1));
  open.socket.lose(1000);
  assert.deepEqual(types(open.events), ["open", "audio.start"]);
});

test("messages for a connection that never opened are not sent on the next one", () => {
  const { client, sockets } = make();
  client.connect();
  client.sendText("Old.");
  client.close();
  client.connect();
  sockets[1].open();
  assert.deepEqual(sockets[1].sent.map(({ type }) => type), ["session.config"]);
});

test("audio on a new connection needs a new audio.start", async () => {
  const { sockets, socket, events, timers } = await connected();
  socket.receive(START);
  socket.lose(1006);
  timers.advance(500);
  sockets[1].open();
  sockets[1].receive(audio(1));
  assert.equal(events.at(-1)[1].code, "bad_server_message");
});

test("another model opens another connection, the same one does not", async () => {
  const { client, sockets, socket } = await connected();
  client.connect({ model: "b" });
  assert.equal(socket.closedWith, 1000);
  sockets[1].open();
  assert.deepEqual(sockets[1].sent[0], { type: "session.config", response_format: "pcm", stream_audio: true, voice: "one", model: "b" });
  client.connect({ model: "b", speed: 2 });
  client.connect({ speed: 1 });
  assert.equal(sockets.length, 2);
});

test("an invalid address is a failed connection", async () => {
  const { client, events } = make({
    openSocket: () => {
      throw new SyntaxError("bad address");
    },
  });
  assert.equal(await client.connect(), false);
  assert.equal(events[0][1].reason, "bad address");
});

// -- Tokens ----------------------------------------------------------------------------------------------------------

test("each socket sends a new token as a subprotocol, or none", async () => {
  let number = 0;
  const { sockets, socket, timers } = await connected({ token: async () => `t${++number}` });
  assert.deepEqual(socket.protocols, ["realtime-tts.v1", "realtime-tts.token.t1"]);
  socket.lose(1006);
  timers.advance(500);
  await settle();
  assert.deepEqual(sockets[1].protocols, ["realtime-tts.v1", "realtime-tts.token.t2"]);
  const open = await connected({ token: async () => null });
  assert.equal(open.socket.protocols, undefined);
});

test("a token that arrives after close opens nothing", async () => {
  let give;
  const { client, sockets } = make({ token: () => new Promise((resolve) => (give = resolve)) });
  client.connect();
  client.close();
  give("late");
  await settle();
  assert.equal(sockets.length, 0);
});

test("a refused token is an error without a connection", async () => {
  const { client, events } = make({ token: () => Promise.reject(Object.assign(new Error("no"), { code: "unauthorized", retryable: false })) });
  assert.equal(await client.connect(), false);
  assert.deepEqual(types(events), ["error", "closed"]);
  assert.equal(events[0][1].code, "unauthorized");
});

test("during a reconnect an unavailable token is retried silently; a refused one is final", async () => {
  let answer = async () => "t1";
  const { client, socket, events, timers } = await connected({ token: () => answer() });
  socket.lose(1006);
  answer = () => Promise.reject(new Error("offline"));
  timers.advance(500);
  await settle();
  assert.deepEqual(types(events), ["open", "closed", "closed"]);
  assert.equal(client.state, "reconnecting");
  answer = () => Promise.reject(Object.assign(new Error("no"), { code: "unauthorized", retryable: false }));
  timers.advance(1000);
  await settle();
  assert.deepEqual(types(events), ["open", "closed", "closed", "error", "closed"]);
  assert.equal(client.state, "closed");
  assert.equal(timers.pending, 0);
});

// -- With network impairment -----------------------------------------------------------------------------------------

test("delayed frames arrive later, in order, before the close", async () => {
  const timers = new FakeTimers();
  const network = new ImpairedNetwork({ jitterMs: 100, schedule: timers.schedule, nowMs: () => timers.nowMs });
  const { client, socket, events } = await connected({ network, nowS: () => timers.nowMs / 1000 });
  const inspected = [];
  client.on("message", ({ direction, at_s }) => direction === "in" && inspected.push(at_s));
  socket.receive(START);
  socket.receive(audio(1));
  socket.lose(1000);
  assert.deepEqual(types(events), ["open"]);
  timers.advance(100);
  assert.deepEqual(types(events), ["open", "audio.start", "audio", "closed"]);
  assert.ok(events[2][1].arrived_at_s > 0);
  assert.ok(inspected.every((at) => at > 0));
});

test("the socket's own arrival time is used, unless the network delayed the frame", async () => {
  const timers = new FakeTimers();
  const network = new ImpairedNetwork({ schedule: timers.schedule, nowMs: () => timers.nowMs });
  const { client, socket, events } = await connected({ network, nowS: () => timers.nowMs / 1000 });
  const arrivals = () => events.filter(([type]) => type === "audio").map(([, { arrived_at_s }]) => arrived_at_s);
  timers.advance(1000);
  socket.onmessage({ data: JSON.stringify(START), at_s: 0.98 });
  socket.onmessage({ data: audio(1), at_s: 0.99 });
  assert.deepEqual(arrivals(), [0.99]);
  network.jitterMs = 100;
  socket.onmessage({ data: audio(2), at_s: 0.99 });
  timers.advance(100);
  assert.equal(arrivals().length, 2);
  assert.ok(arrivals()[1] > 1);
  client.close();
});

test("a `sent` event has the message and the socket's time of sending", async () => {
  const { client, socket } = await connected();
  const sent = [];
  client.on("sent", ({ at_s, data }) => sent.push([at_s, data.type]));
  socket.send = (_data, onsent) => onsent(1.25);
  client.sendText("Hi.");
  assert.deepEqual(sent, [[1.25, "input.text"]]);
  client.close();
});

test("close drops the delayed frames", async () => {
  const timers = new FakeTimers();
  const network = new ImpairedNetwork({ jitterMs: 100, schedule: timers.schedule, nowMs: () => timers.nowMs });
  const { client, socket } = await connected({ network });
  socket.receive(START);
  assert.equal(timers.pending, 1);
  client.close();
  assert.equal(timers.pending, 0);
});
