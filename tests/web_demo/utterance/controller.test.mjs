// Controller of utterances, with a fake player and a fake WebSocket.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechClient } from "../../../web_demo/protocol/client.js";
import { UtteranceController } from "../../../web_demo/utterance/controller.js";
import { utteranceReport } from "../../../web_demo/utterance/report.js";
import { FakeSocket } from "../fakes.mjs";

class FakePlayer {
  calls = [];
  isRunning = true;
  outputLatencyMs = 0;
  played = 0;
  prepare = async () => {};
  audibleAtMs = ({ context_time_s }) => context_time_s * 1000;
  playedSamples = () => this.played;
  begin(rate) {
    this.calls.push(`begin ${rate}`);
    this.playbackId = (this.playbackId ?? 0) + 1;
    return this.playbackId;
  }
  push(samples) {
    this.calls.push(`push ${samples.length}`);
  }
  sentenceDone() {
    this.calls.push("sentence-done");
  }
  textStarved() {
    this.calls.push("text-starved");
  }
  end() {
    this.calls.push("end");
  }
  stop() {
    this.calls.push("stop");
  }
}

/** A controller with a first utterance; `send` and `sendAudio` are the server's messages. */
function speaking({ probe = async () => 200, text = "One. Two.", asLive = false } = {}) {
  const sockets = [];
  const clock = { nowS: 5 };
  const client = new SpeechClient({
    url: "ws://here/",
    openSocket: () => (sockets.push(new FakeSocket()), sockets.at(-1)),
    nowS: () => clock.nowS,
    random: () => 0.5,
    schedule: () => () => {},
  });
  const player = new FakePlayer();
  const controller = new UtteranceController({ client, player, probe });
  if (asLive) controller.begin({ config: {}, askedAtMs: 0 });
  else controller.speak({ text, config: { voice: "v" }, askedAtMs: 0 });
  const report = (stats) =>
    controller.onPlayerStats({ playback_id: player.playbackId, state: "playing", played_samples: 0, played_ms: 0, buffered_ms: 0,
      underruns: 0, gap_worst_ms: 0, gap_open_ms: 0, rms: 0, first_audible: null, context_time_s: 0, ...stats });
  const send = (message) => sockets.at(-1).receive({ context_id: controller.utterance.contextId, ...message });
  const sendAudio = (bytes) => sockets.at(-1).receive(new ArrayBuffer(bytes));
  return { controller, player, sockets, clock, report, send, sendAudio };
}

const START = { type: "audio.start", sentence_index: 0, sentence_text: "One.", text_span: [0, 4], format: "pcm", sample_rate: 24000 };
const DONE = { type: "audio.done", sentence_index: 0, error: false, reason: "complete", samples: 240 };
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("one utterance, from the request to the last sample", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, report, send, sendAudio } = speaking();
  assert.equal(controller.snapshot.state, "connecting");
  sockets[0].open();
  assert.equal(controller.snapshot.state, "waiting");
  assert.deepEqual(sockets[0].sent.map(({ type }) => type), ["session.config", "input.text", "input.done"]);
  send(START);
  sendAudio(480);
  send(DONE);
  send({ type: "session.done", continuity: { underrun_count: 0 } });
  await settled();
  assert.deepEqual(player.calls, ["begin 24000", "push 240", "sentence-done", "end"]);
  report({ played_ms: 5, first_audible: { context_time_s: 0.182 }, context_time_s: 0.2 });
  assert.equal(controller.snapshot.state, "speaking");
  assert.equal(controller.snapshot.first_audible_ms, 182);
  report({ state: "finished", played_ms: 10 });
  assert.equal(controller.snapshot.state, "idle");
  assert.equal(controller.snapshot.outcome, "spoken");
  assert.deepEqual(controller.snapshot.server_report, { underrun_count: 0 });
  assert.equal(controller.snapshot.bytes, 480);
  assert.equal(controller.snapshot.bytes_per_s, 48000);
});

test("an utterance without audio ends", () => {
  const { controller, sockets, send } = speaking();
  sockets[0].open();
  send({ type: "session.done", total_sentences: 0 });
  assert.equal(controller.snapshot.outcome, "spoken");
});

test("a failed sentence is reported, and the others continue", () => {
  const { controller, player, sockets, send, sendAudio } = speaking();
  sockets[0].open();
  send({ type: "error", code: "synthesis_failed", message: "x", fatal: false, sentence_index: 0 });
  assert.match(controller.snapshot.problem, /could not synthesise/);
  assert.ok(controller.isBusy);
  send({ ...START, sentence_index: 1 });
  sendAudio(480);
  assert.deepEqual(player.calls, ["begin 24000", "push 240"]);
});

test("a refusal is reported with the time until a retry", () => {
  const { controller, player, sockets, send } = speaking();
  sockets[0].open();
  send({ type: "error", code: "overloaded", message: "x", fatal: false, retry_after_ms: 2400 });
  assert.match(controller.snapshot.problem, /Try again in 3 s/);
  assert.equal(controller.snapshot.outcome, "failed");
  assert.deepEqual(player.calls, []);
});

test("after a lost connection the received audio is played, and the loss is reported", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, report, send, sendAudio } = speaking();
  sockets[0].open();
  send(START);
  sendAudio(480);
  sockets[0].lose(1006);
  assert.match(controller.snapshot.problem, /connection was lost/);
  assert.equal(player.calls.at(-1), "end");
  report({ state: "finished" });
  assert.equal(controller.snapshot.outcome, "failed");
});

test("after a lost connection the next utterance is played", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, report, send, sendAudio } = speaking();
  sockets[0].open();
  send(START);
  sendAudio(480);
  sockets[0].lose(1006);
  report({ state: "finished" });
  controller.speak({ text: "Again.", config: {}, askedAtMs: 0 });
  sockets[1].open();
  send(START);
  sendAudio(960);
  assert.deepEqual(player.calls.slice(-2), ["begin 24000", "push 480"]);
});

test("a connection lost after the last message is not a failure", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, sockets, report, send, sendAudio } = speaking();
  sockets[0].open();
  send(START);
  sendAudio(480);
  send(DONE);
  send({ type: "session.done" });
  await settled();
  sockets[0].lose(1006);
  report({ state: "finished" });
  assert.equal(controller.snapshot.outcome, "spoken");
  assert.equal(controller.snapshot.problem, null);
});

test("a socket that never opens is explained by /readyz", async () => {
  for (const [status, text] of [[null, /not reachable/], [503, /not ready/], [200, /may be full/]]) {
    const { controller, sockets } = speaking({ probe: async () => status });
    sockets[0].lose(1006);
    await settled();
    assert.match(controller.snapshot.problem, text);
    assert.equal(controller.snapshot.outcome, "failed");
  }
});

test("a barge-in keeps the connection, sends the playback position, and uses the server's split of the text", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, report, send, sendAudio } = speaking();
  sockets[0].open();
  send(START);
  sendAudio(4800);
  report({ played_samples: 2000, played_ms: 83 });
  player.played = 1200;
  controller.stop(performance.now());
  assert.equal(player.calls.at(-1), "stop");
  const { type, playback_offset_ms: offset, context_id: context } = sockets[0].sent.at(-1);
  assert.deepEqual([type, offset, context], ["input.cancel", 50, controller.utterance.contextId]);
  assert.equal(controller.playedSamples, 1200);
  assert.deepEqual(controller.utterance.textSplit, { played: "", remaining: "One. Two.", source: "page" });
  send({ type: "audio.cancelled", text_spoken: "One.", text_remaining: " Two." });
  send({ type: "session.done", reason: "cancelled" });
  assert.deepEqual(controller.utterance.textSplit, { played: "One.", remaining: " Two.", source: "server" });
  assert.ok(controller.snapshot.cancelled_after_ms >= 0);
  assert.equal(controller.snapshot.outcome, "stopped");
  assert.equal(sockets.length, 1);
});

test("a stop before any text was sent closes the connection", () => {
  const { controller, sockets } = speaking();
  controller.stop();
  assert.equal(sockets[0].closedWith, 1000);
  assert.equal(controller.snapshot.outcome, "stopped");
});

test("late messages after a barge-in do not affect the next utterance", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, report, send, sendAudio } = speaking();
  sockets[0].open();
  send(START);
  sendAudio(480);
  const stale = controller.utterance.contextId;
  controller.speak({ text: "Again.", config: {}, askedAtMs: 0 });
  const before = player.calls.length;
  report({ state: "finished", played_ms: 99 });
  sendAudio(480);
  sockets[0].receive({ ...DONE, context_id: stale });
  sockets[0].receive({ type: "session.done", context_id: stale });
  await settled();
  assert.equal(player.calls.length, before);
  assert.equal(controller.snapshot.played_ms, 0);
  assert.equal(controller.snapshot.state, "waiting");
  send({ ...START, sentence_text: "Again." });
  sendAudio(960);
  assert.equal(player.calls.at(-1), "push 480");
});

test("blocked audio is reported", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, send, sendAudio } = speaking();
  player.isRunning = false;
  sockets[0].open();
  send(START);
  sendAudio(480);
  t.mock.timers.tick(2000);
  assert.match(controller.snapshot.problem, /blocks audio/);
});

test("a wait for text is not a gap, a wait for audio is one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, clock, send, sendAudio } = speaking({ asLive: true });
  sockets[0].open();
  t.mock.method(performance, "now", () => clock.nowS * 1000);
  controller.write("One. T");
  send(START);
  sendAudio(480); // 10 ms of audio, played until 5.01
  send(DONE);
  await settled();
  assert.ok(controller.snapshot.awaits_text);
  clock.nowS = 6;
  controller.write("wo. Three.");
  controller.finish();
  assert.ok(!controller.snapshot.awaits_text);
  clock.nowS = 6.2;
  send({ ...START, sentence_index: 1, text_span: [5, 9] });
  sendAudio(480);
  assert.equal(player.calls.at(-2), "text-starved");
  assert.ok(!controller.snapshot.awaits_text);
  send({ ...DONE, sentence_index: 1 });
  clock.nowS = 7; // its text was complete before
  send({ ...START, sentence_index: 2, text_span: [10, 16] });
  sendAudio(480);
  const { underrun_count, text_starvation_s } = controller.snapshot.report;
  assert.equal(underrun_count, 1);
  assert.ok(Math.abs(text_starvation_s - 1.19) < 1e-9, `${text_starvation_s}`);
});

test("the end of a sentence is known from the text after it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, player, sockets, clock, send, sendAudio } = speaking({ asLive: true });
  sockets[0].open();
  t.mock.method(performance, "now", () => clock.nowS * 1000);
  controller.write("One.");
  controller.write(" Two.");
  send(START);
  sendAudio(480); // played until 5.01
  send(DONE);
  await settled();
  clock.nowS = 6;
  controller.write(" "); // now the sentence "Two." is complete
  send({ ...START, sentence_index: 1, text_span: [5, 9] });
  sendAudio(480);
  assert.equal(player.calls.at(-2), "text-starved");
});

test("errors of another utterance are ignored", () => {
  const { controller, sockets } = speaking();
  sockets[0].open();
  sockets[0].receive({ type: "error", code: "synthesis_failed", message: "x", fatal: false, context_id: "another" });
  assert.ok(controller.isBusy);
  assert.equal(controller.snapshot.problem, null);
});

test("Opus padding is not counted as speech", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller } = speaking();
  const start = { ...START, format: "opus", sample_rate: 24000, pre_skip: 156 };
  for (let i = 0; i < 4; i++) controller.utterance.addPacket({ bytes: new Uint8Array(90), start, arrived_at_s: 5 });
  controller.utterance.finishSentence(start, { ...DONE, samples: 1700 });
  const { packets, audio_s } = controller.snapshot.report;
  assert.equal(packets, 4);
  assert.ok(Math.abs(audio_s - 1700 / 24000) < 1e-9, `${audio_s}`);
});

test("the time to first packet is measured with the socket's own times", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, sockets, send } = speaking({ asLive: true });
  sockets[0].open();
  const onsent = [];
  sockets[0].send = (data, callback) => onsent.push(callback);
  controller.write("One. ");
  controller.write("Two.");
  onsent[0](7);
  onsent[1](8); // not the first text
  send(START);
  sockets[0].onmessage({ data: new ArrayBuffer(480), at_s: 7.25 });
  assert.equal(controller.snapshot.ttfp_ms, 250);
});

test("the report has the figures of page and server, the marks and the packets", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { controller, sockets, report, send, sendAudio } = speaking();
  sockets[0].open();
  send(START);
  send({ type: "audio.timestamps", sentence_index: 0, status: "ok", words: [{ word: "One.", start_ms: 0, end_ms: 9, text_span: [0, 4] }] });
  sendAudio(480);
  send({ ...DONE, metrics: { ttfp_ms: 1, queue_ms: 0 } });
  send({ type: "session.done", continuity: { audio_ms: 10, underrun_count: 0 } });
  await settled();
  report({ state: "finished", played_ms: 10, played_samples: 240 });
  const saved = utteranceReport(controller.utterance, { serverInfo: null, userAgent: "node" });
  assert.equal(saved.text, "One. Two.");
  assert.equal(saved.continuity.server.audio_ms, 10);
  assert.equal(saved.continuity.client.audio_s, 0.01);
  assert.equal(saved.continuity.playback.played_ms, 10);
  assert.deepEqual(saved.packets.map(([, bytes, ms]) => [bytes, ms]), [[480, 10]]);
  assert.deepEqual(saved.words, [{ word: "One.", start_ms: 0, end_ms: 9 }]);
  assert.deepEqual(saved.latency.map(({ name }) => name).slice(0, 3), ["asked", "connected", "first_token_sent"]);
});
