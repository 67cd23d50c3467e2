// The protocol client, without a server.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechClient, SpeechClientError } from "../../../web_demo/protocol/client.js";
import { BadNetwork } from "../../../web_demo/simulation/network-impairment.js";
import { FakeSocket, FakeTimers } from "../fakes.mjs";

const HEARD = ["open", "audio.start", "audio", "audio.cancelled", "session.done", "error", "closed"];
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
  for (const type of HEARD) client.on(type, (detail) => events.push([type, detail]));
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
const sound = (...samples) => Int16Array.of(...samples).buffer;

// -- Asking -----------------------------------------------------------------------------------------------------------

test("connect opens, sends the config first, and then what was said meanwhile", async () => {
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

test("on an open connection connect only sends what is new", async () => {
  const { client, sockets, socket } = await connected();
  assert.equal(await client.connect({ speed: 2 }), true);
  assert.equal(sockets.length, 1);
  assert.deepEqual(socket.sent.at(-1), { type: "session.config", speed: 2 });
});

test("without a connection nothing can be said, and a typed error tells so", () => {
  const { client } = make();
  for (const say of [() => client.sendText("x"), () => client.done(), () => client.cancel()]) {
    assert.throws(say, (error) => error instanceof SpeechClientError && error.code === "not_connected");
  }
  assert.doesNotThrow(() => client.reportPlayback({ playedMs: 1 }));
});

test("text that is no string is refused before it is sent", async () => {
  const { client, socket } = await connected();
  assert.throws(() => client.sendText(7), TypeError);
  assert.equal(socket.sent.length, 1);
});

test("playback reports are the protocol's, without the fields that are not known", async () => {
  const { client, socket } = await connected();
  client.reportPlayback({ playedMs: 1240, bufferedMs: 300, underruns: 0, contextId: "a" });
  client.reportPlayback({ playedMs: 5 });
  assert.deepEqual(socket.sent.slice(1), [
    { type: "playback.report", context_id: "a", played_ms: 1240, buffered_ms: 300, underruns: 0 },
    { type: "playback.report", played_ms: 5 },
  ]);
});

test("an utterance is in flight from its first text to its session.done", async () => {
  const { client, socket } = await connected();
  assert.equal(client.isInFlight, false);
  client.sendText("One. ");
  client.sendText("More of it.");
  client.done();
  client.sendText("The next one.");
  client.done();
  socket.receive({ type: "session.done" });
  assert.equal(client.isInFlight, true);
  socket.receive({ type: "session.done" });
  assert.equal(client.isInFlight, false);
});

test("what a server about to end, or a fatal error, leaves unsaid is in flight no more", async () => {
  for (const error of [{ code: "session_ending", fatal: false }, { code: "internal_error", fatal: true }]) {
    const { client, socket } = await connected();
    client.sendText("One.");
    client.done();
    socket.receive({ type: "error", ...error });
    assert.equal(client.isInFlight, false, error.code);
  }
});

// -- Hearing ----------------------------------------------------------------------------------------------------------

test("audio carries its bytes, what announced it, and its time of arrival", async () => {
  const { socket, events, timers } = await connected();
  timers.advance(5000);
  socket.receive({ ...START, context_id: "a" });
  socket.receive(sound(1, -2, 3));
  const [type, audio] = events.at(-1);
  assert.equal(type, "audio");
  assert.deepEqual([...new Int16Array(audio.bytes.buffer)], [1, -2, 3]);
  assert.deepEqual([audio.start.context_id, audio.format, audio.arrived_at_s], ["a", "pcm", 5]);
});

test("a frame header says whose sound it is", async () => {
  const { socket, events } = await connected();
  socket.receive({ ...START, context_id: "a", context_number: 1, frame_header: true });
  socket.receive({ ...START, context_id: "b", context_number: 2, sentence_index: 4, frame_header: true });
  const frame = new DataView(new ArrayBuffer(18));
  frame.setUint8(0, 1);
  frame.setUint8(1, 1);
  frame.setUint16(2, 1, true);
  frame.setUint32(4, 0, true);
  frame.setUint32(8, 7, true);
  frame.setUint32(12, 960, true);
  frame.setInt16(16, -5, true);
  socket.receive(frame.buffer);
  const audio = events.at(-1)[1];
  assert.deepEqual([audio.start.context_id, audio.start.sentence_index], ["a", 0]);
  assert.deepEqual([...audio.bytes], [0xfb, 0xff]);
});

test("contexts that are over leave nothing behind: the next one's frames are its own", async () => {
  const { client, socket, events } = await connected();
  client.sendText("One.", { contextId: "a" });
  client.done({ contextId: "a" });
  socket.receive({ ...START, context_id: "a", context_number: 1, frame_header: true });
  socket.receive({ type: "session.done", context_id: "a" });
  socket.receive({ ...START, context_id: "b", context_number: 2, frame_header: true });
  const frame = new DataView(new ArrayBuffer(18));
  frame.setUint8(0, 1);
  frame.setUint16(2, 1, true); // of context "a", which is over
  socket.receive(frame.buffer);
  assert.equal(events.at(-1)[1].code, "bad_server_message");
});

test("unknown types and fields are ignored, and none can pretend to be an event of ours", async () => {
  const { socket, events } = await connected();
  socket.receive({ type: "something.new", x: 1 });
  socket.receive({ type: "audio", x: 1 });
  socket.receive({ type: "closed" });
  socket.receive({ type: "session.done", total_sentences: 0, y: 2 });
  assert.deepEqual(types(events), ["open", "session.done"]);
});

test("what breaks the protocol ends the connection with an error", async () => {
  const withoutVersion = new ArrayBuffer(20);
  for (const bad of [[START, new ArrayBuffer(3)], ["{"], ["7"], ["null"], [sound(1)], [{ ...START, frame_header: true }, withoutVersion], [{ ...START, frame_header: true }, Uint8Array.of(1, 0, 0, 0, 0).buffer]]) {
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

test("the inspector sees everything that passes, sound by its size alone", async () => {
  const { client, sockets } = make();
  const seen = [];
  client.on("message", ({ direction, data }) => seen.push([direction, data.type ?? data.bytes]));
  client.connect();
  client.sendText("Hi.");
  sockets[0].open();
  sockets[0].receive(START);
  sockets[0].receive(sound(1, 2));
  assert.deepEqual(seen, [["out", "session.config"], ["out", "input.text"], ["in", "audio.start"], ["in", 4]]);
});

// -- Barge-in ---------------------------------------------------------------------------------------------------------

test("cancel keeps the connection, and drops the sound that is still on its way", async () => {
  const { client, socket, events } = await connected();
  client.sendText("A long story.", { contextId: "a" });
  socket.receive({ ...START, context_id: "a" });
  socket.receive(sound(1));
  client.cancel({ contextId: "a", playbackOffsetMs: 1240 });
  assert.deepEqual(socket.sent.at(-1), { type: "input.cancel", context_id: "a", playback_offset_ms: 1240 });
  socket.receive(sound(2));
  socket.receive({ type: "audio.cancelled", context_id: "a", text_spoken: "A long" });
  socket.receive({ type: "session.done", context_id: "a", reason: "cancelled" });
  assert.deepEqual(types(events), ["open", "audio.start", "audio", "audio.cancelled", "session.done"]);
  assert.ok(client.isOpen && !client.isInFlight);
  client.sendText("Another.", { contextId: "a" });
  socket.receive({ ...START, context_id: "a", utterance_index: 1 });
  socket.receive(sound(3));
  assert.equal(types(events).at(-1), "audio");
});

test("a cancel is of its own context: others are heard on", async () => {
  const { client, socket, events } = await connected();
  client.cancel({ contextId: "a" });
  socket.receive({ ...START, context_id: "b" });
  socket.receive(sound(1));
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
  socket.receive(sound(1)); // of the second text, which has been cancelled too
  socket.receive({ type: "audio.cancelled" });
  assert.deepEqual(types(events), ["open", "audio.cancelled", "audio.start", "audio.cancelled"]);
});

// -- Losing the connection --------------------------------------------------------------------------------------------

test("after a loss it comes back with its config, and says nothing twice", async () => {
  const { client, sockets, socket, events, states, timers } = await connected();
  client.sendText("Half of a sen");
  socket.lose(1006);
  assert.deepEqual(events.at(-1), ["closed", { code: 1006, reason: "", opened: true, in_flight: true, will_reconnect: true }]);
  assert.equal(client.state, "reconnecting");
  assert.throws(() => client.sendText("tence."), SpeechClientError);
  timers.advance(499);
  assert.equal(sockets.length, 1);
  timers.advance(1);
  sockets[1].open();
  assert.deepEqual(sockets[1].sent, [{ type: "session.config", response_format: "pcm", stream_audio: true, voice: "one" }]);
  assert.ok(!client.isInFlight);
  assert.deepEqual(states, ["connecting", "open", "reconnecting", "open"]);
});

test("the tries are bounded and farther and farther apart, with no timer left behind", async () => {
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
  assert.equal(events.at(-1)[1].will_reconnect, false);
  assert.equal(timers.pending, 0);
});

test("a server that accepts and drops again and again is not asked for ever", async () => {
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

test("a connection that was steady counts its next loss anew", async () => {
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

test("closes that mean it are final", async () => {
  for (const code of [1000, 1001, 1007, 1008, 1009]) {
    const { client, socket, timers } = await connected();
    socket.lose(code);
    assert.equal(client.state, "closed", String(code));
    assert.equal(timers.pending, 0);
  }
});

test("a server that says when to come again is left in peace until then", async () => {
  const { sockets, socket, timers } = await connected();
  socket.receive({ type: "error", code: "overloaded", fatal: true, retry_after_ms: 7000 });
  socket.lose(1013);
  timers.advance(6999);
  assert.equal(sockets.length, 1);
  timers.advance(1);
  assert.equal(sockets.length, 2);
});

test("a first connection that fails is the caller's to try again", async () => {
  const { client, sockets, events, timers } = make();
  const opened = client.connect();
  sockets[0].lose(1006);
  assert.equal(await opened, false);
  assert.deepEqual(events, [["closed", { code: 1006, reason: "", opened: false, in_flight: false, will_reconnect: false }]]);
  assert.equal(timers.pending, 0);
});

test("close ends it all: the socket, the timer, and those who wait", async () => {
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
  open.socket.receive(sound(1));
  open.socket.lose(1000);
  assert.deepEqual(types(open.events), ["open", "audio.start"]);
});

test("what was said to a connection that never opened is not said to the next", () => {
  const { client, sockets } = make();
  client.connect();
  client.sendText("Old.");
  client.close();
  client.connect();
  sockets[1].open();
  assert.deepEqual(sockets[1].sent.map(({ type }) => type), ["session.config"]);
});

test("what the lost connection announced announces nothing on the next", async () => {
  for (const header of [false, true]) {
    const { sockets, socket, events, timers } = await connected();
    socket.receive({ ...START, context_number: 0, frame_header: header });
    socket.lose(1006);
    timers.advance(500);
    sockets[1].open();
    if (header) sockets[1].receive({ ...START, context_number: 1, frame_header: true });
    const frame = new ArrayBuffer(18);
    new DataView(frame).setUint8(0, 1); // of context 0
    sockets[1].receive(frame);
    assert.equal(events.at(-1)[1].code, "bad_server_message");
  }
});

test("an address that no socket can be made of is a connection that failed", async () => {
  const { client, events } = make({
    openSocket: () => {
      throw new SyntaxError("bad address");
    },
  });
  assert.equal(await client.connect(), false);
  assert.equal(events[0][1].reason, "bad address");
});

// -- Tokens -----------------------------------------------------------------------------------------------------------

test("each socket gets a fresh token, as a subprotocol; none where there is none", async () => {
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

test("a token that comes after close opens nothing", async () => {
  let give;
  const { client, sockets } = make({ token: () => new Promise((resolve) => (give = resolve)) });
  client.connect();
  client.close();
  give("late");
  await settle();
  assert.equal(sockets.length, 0);
});

test("a token that is refused is an error, and no connection", async () => {
  const { client, events } = make({ token: () => Promise.reject(Object.assign(new Error("no"), { code: "unauthorized", retryable: false })) });
  assert.equal(await client.connect(), false);
  assert.deepEqual(types(events), ["error", "closed"]);
  assert.equal(events[0][1].code, "unauthorized");
});

test("while it comes back a token that cannot be had is no news; one that is refused ends it", async () => {
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

// -- Through a bad network --------------------------------------------------------------------------------------------

test("what the network holds back arrives later, in order, and the close behind it", async () => {
  const timers = new FakeTimers();
  const network = new BadNetwork({ jitterMs: 100, schedule: timers.schedule, nowMs: () => timers.nowMs });
  const { client, socket, events } = await connected({ network, nowS: () => timers.nowMs / 1000 });
  const inspected = [];
  client.on("message", ({ direction, at_s }) => direction === "in" && inspected.push(at_s));
  socket.receive(START);
  socket.receive(sound(1));
  socket.lose(1000);
  assert.deepEqual(types(events), ["open"]);
  timers.advance(100);
  assert.deepEqual(types(events), ["open", "audio.start", "audio", "closed"]);
  assert.ok(events[2][1].arrived_at_s > 0);
  assert.ok(inspected.every((at) => at > 0));
});

test("a socket's own stamp is believed, unless the network held the frame back", async () => {
  const timers = new FakeTimers();
  const network = new BadNetwork({ schedule: timers.schedule, nowMs: () => timers.nowMs });
  const { client, socket, events } = await connected({ network, nowS: () => timers.nowMs / 1000 });
  const arrivals = () => events.filter(([type]) => type === "audio").map(([, { arrived_at_s }]) => arrived_at_s);
  timers.advance(1000);
  socket.onmessage({ data: JSON.stringify(START), at_s: 0.98 });
  socket.onmessage({ data: sound(1), at_s: 0.99 });
  assert.deepEqual(arrivals(), [0.99]);
  network.jitterMs = 100;
  socket.onmessage({ data: sound(2), at_s: 0.99 });
  timers.advance(100);
  assert.equal(arrivals().length, 2);
  assert.ok(arrivals()[1] > 1);
  client.close();
});

test("a socket that knows when it sent tells it, with the message", async () => {
  const { client, socket } = await connected();
  const told = [];
  client.on("sent", ({ at_s, data }) => told.push([at_s, data.type]));
  socket.send = (_data, onsent) => onsent(1.25);
  client.sendText("Hi.");
  assert.deepEqual(told, [[1.25, "input.text"]]);
  client.close();
});

test("close clears the network", async () => {
  const timers = new FakeTimers();
  const network = new BadNetwork({ jitterMs: 100, schedule: timers.schedule, nowMs: () => timers.nowMs });
  const { client, socket } = await connected({ network });
  socket.receive(START);
  assert.equal(timers.pending, 1);
  client.close();
  assert.equal(timers.pending, 0);
});
