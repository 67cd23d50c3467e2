// The speaker and what it knows of an utterance, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechClient } from "../../../web_demo/protocol/client.js";
import { Speaker } from "../../../web_demo/utterance/controller.js";
import { FakeSocket } from "../fakes.mjs";

class FakePlayer {
  calls = [];
  isRunning = true;
  outputLatencyMs = 0;
  played = 0;
  prepare = async () => {};
  heardAtMs = ({ context_time_s }) => context_time_s * 1000;
  playedSamples = () => this.played;
  begin(rate) {
    this.calls.push(`begin ${rate}`);
    this.utterance = (this.utterance ?? 0) + 1;
    return this.utterance;
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

/** A speaker whose first utterance was asked for; `tell` and `sound` are the server's. */
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
  const speaker = new Speaker({ client, player, probe });
  if (asLive) speaker.begin({ config: {}, askedAtMs: 0 });
  else speaker.speak({ text, config: { voice: "v" }, askedAtMs: 0 });
  const hear = (stats) =>
    speaker.hear({ utterance: player.utterance, state: "playing", played_samples: 0, played_ms: 0, buffered_ms: 0,
      underruns: 0, gap_worst_ms: 0, gap_open_ms: 0, rms: 0, first_audible: null, context_time_s: 0, ...stats });
  const tell = (message) => sockets.at(-1).receive({ context_id: speaker.run.contextId, ...message });
  const sound = (bytes) => sockets.at(-1).receive(new ArrayBuffer(bytes));
  return { speaker, player, sockets, clock, hear, tell, sound };
}

const START = { type: "audio.start", sentence_index: 0, sentence_text: "One.", text_span: [0, 4], format: "pcm", sample_rate: 24000 };
const DONE = { type: "audio.done", sentence_index: 0, error: false, reason: "complete", samples: 240 };
const settled = () => new Promise((resolve) => setImmediate(resolve));

test("one utterance, from the press to the last sample", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, hear, tell, sound } = speaking();
  assert.equal(speaker.snapshot.state, "connecting");
  sockets[0].open();
  assert.equal(speaker.snapshot.state, "waiting");
  assert.deepEqual(sockets[0].sent.map(({ type }) => type), ["session.config", "input.text", "input.done"]);
  tell(START);
  sound(480);
  tell(DONE);
  tell({ type: "session.done", continuity: { underrun_count: 0 } });
  await settled();
  assert.deepEqual(player.calls, ["begin 24000", "push 240", "sentence-done", "end"]);
  hear({ played_ms: 5, first_audible: { context_time_s: 0.182 }, context_time_s: 0.2 });
  assert.equal(speaker.snapshot.state, "speaking");
  assert.equal(speaker.snapshot.first_audible_ms, 182);
  hear({ state: "finished", played_ms: 10 });
  assert.equal(speaker.snapshot.state, "idle");
  assert.equal(speaker.snapshot.outcome, "spoken");
  assert.deepEqual(speaker.snapshot.server_report, { underrun_count: 0 });
  assert.equal(speaker.snapshot.bytes, 480);
  assert.equal(speaker.snapshot.bytes_per_s, 48000);
});

test("an utterance without a sound ends all the same", () => {
  const { speaker, sockets, tell } = speaking();
  sockets[0].open();
  tell({ type: "session.done", total_sentences: 0 });
  assert.equal(speaker.snapshot.outcome, "spoken");
});

test("one failed sentence is said, and the others go on", () => {
  const { speaker, player, sockets, tell, sound } = speaking();
  sockets[0].open();
  tell({ type: "error", code: "synthesis_failed", message: "x", fatal: false, sentence_index: 0 });
  assert.match(speaker.snapshot.problem, /stumbled/);
  assert.ok(speaker.isBusy);
  tell({ ...START, sentence_index: 1 });
  sound(480);
  assert.deepEqual(player.calls, ["begin 24000", "push 240"]);
});

test("a refusal is said with the time to wait, before a word is spoken", () => {
  const { speaker, player, sockets, tell } = speaking();
  sockets[0].open();
  tell({ type: "error", code: "overloaded", message: "x", fatal: false, retry_after_ms: 2400 });
  assert.match(speaker.snapshot.problem, /try again in 3 s/);
  assert.equal(speaker.snapshot.outcome, "failed");
  assert.deepEqual(player.calls, []);
});

test("a loss in mid-speech plays what has arrived, and says that it is not all", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, hear, tell, sound } = speaking();
  sockets[0].open();
  tell(START);
  sound(480);
  sockets[0].lose(1006);
  assert.match(speaker.snapshot.problem, /connection was lost/);
  assert.equal(player.calls.at(-1), "end");
  hear({ state: "finished" });
  assert.equal(speaker.snapshot.outcome, "failed");
});

test("after a loss the next utterance is heard", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, hear, tell, sound } = speaking();
  sockets[0].open();
  tell(START);
  sound(480);
  sockets[0].lose(1006);
  hear({ state: "finished" });
  speaker.speak({ text: "Again.", config: {}, askedAtMs: 0 });
  sockets[1].open();
  tell(START);
  sound(960);
  assert.deepEqual(player.calls.slice(-2), ["begin 24000", "push 480"]);
});

test("a loss after the last word has come is no failure", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, sockets, hear, tell, sound } = speaking();
  sockets[0].open();
  tell(START);
  sound(480);
  tell(DONE);
  tell({ type: "session.done" });
  await settled();
  sockets[0].lose(1006);
  hear({ state: "finished" });
  assert.equal(speaker.snapshot.outcome, "spoken");
  assert.equal(speaker.snapshot.problem, null);
});

test("a socket that never opens is explained by /readyz", async () => {
  for (const [status, words] of [[null, /cannot be reached/], [503, /not ready yet/], [200, /may be full/]]) {
    const { speaker, sockets } = speaking({ probe: async () => status });
    sockets[0].lose(1006);
    await settled();
    assert.match(speaker.snapshot.problem, words);
    assert.equal(speaker.snapshot.outcome, "failed");
  }
});

test("a barge-in keeps the socket, says what was heard, and takes the server's word for it", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, hear, tell, sound } = speaking();
  sockets[0].open();
  tell(START);
  sound(4800);
  hear({ played_samples: 2000, played_ms: 83 });
  player.played = 1200;
  speaker.stop(performance.now());
  assert.equal(player.calls.at(-1), "stop");
  const { type, playback_offset_ms: offset, context_id: context } = sockets[0].sent.at(-1);
  assert.deepEqual([type, offset, context], ["input.cancel", 50, speaker.run.contextId]);
  assert.equal(speaker.playedSamples, 1200);
  assert.deepEqual(speaker.run.heard, { heard: "", unheard: "One. Two.", by: "page" });
  tell({ type: "audio.cancelled", text_spoken: "One.", text_remaining: " Two." });
  tell({ type: "session.done", reason: "cancelled" });
  assert.deepEqual(speaker.run.heard, { heard: "One.", unheard: " Two.", by: "server" });
  assert.ok(speaker.snapshot.cancelled_after_ms >= 0);
  assert.equal(speaker.snapshot.outcome, "stopped");
  assert.equal(sockets.length, 1);
});

test("a stop before anything was sent leaves the socket", () => {
  const { speaker, sockets } = speaking();
  speaker.stop();
  assert.equal(sockets[0].closedWith, 1000);
  assert.equal(speaker.snapshot.outcome, "stopped");
});

test("what a barge-in leaves on the way does not touch the next utterance", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, hear, tell, sound } = speaking();
  sockets[0].open();
  tell(START);
  sound(480);
  const stale = speaker.run.contextId;
  speaker.speak({ text: "Again.", config: {}, askedAtMs: 0 });
  const before = player.calls.length;
  hear({ state: "finished", played_ms: 99 });
  sound(480);
  sockets[0].receive({ ...DONE, context_id: stale });
  sockets[0].receive({ type: "session.done", context_id: stale });
  await settled();
  assert.equal(player.calls.length, before);
  assert.equal(speaker.snapshot.played_ms, 0);
  assert.equal(speaker.snapshot.state, "waiting");
  tell({ ...START, sentence_text: "Again." });
  sound(960);
  assert.equal(player.calls.at(-1), "push 480");
});

test("sound that the browser holds back is said", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, tell, sound } = speaking();
  player.isRunning = false;
  sockets[0].open();
  tell(START);
  sound(480);
  t.mock.timers.tick(2000);
  assert.match(speaker.snapshot.problem, /holding the sound back/);
});

test("a wait for text is no gap; a wait for sound is one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, clock, tell, sound } = speaking({ asLive: true });
  sockets[0].open();
  t.mock.method(performance, "now", () => clock.nowS * 1000);
  speaker.write("One. T");
  tell(START);
  sound(480); // 10 ms of sound, heard by 5.01
  tell(DONE);
  await settled();
  assert.ok(speaker.snapshot.awaits_text);
  clock.nowS = 6;
  speaker.write("wo. Three.");
  speaker.finish();
  assert.ok(!speaker.snapshot.awaits_text);
  clock.nowS = 6.2;
  tell({ ...START, sentence_index: 1, text_span: [5, 9] });
  sound(480);
  assert.equal(player.calls.at(-2), "text-starved");
  assert.ok(!speaker.snapshot.awaits_text);
  tell({ ...DONE, sentence_index: 1 });
  clock.nowS = 7; // its text was there all the time
  tell({ ...START, sentence_index: 2, text_span: [10, 16] });
  sound(480);
  const { underrun_count, text_starvation_s } = speaker.snapshot.report;
  assert.equal(underrun_count, 1);
  assert.ok(Math.abs(text_starvation_s - 1.19) < 1e-9, `${text_starvation_s}`);
});

test("a sentence is closed by what follows it, not by its own last letter", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets, clock, tell, sound } = speaking({ asLive: true });
  sockets[0].open();
  t.mock.method(performance, "now", () => clock.nowS * 1000);
  speaker.write("One.");
  speaker.write(" Two.");
  tell(START);
  sound(480); // heard by 5.01
  tell(DONE);
  await settled();
  clock.nowS = 6;
  speaker.write(" "); // only now it is certain that "Two." was all
  tell({ ...START, sentence_index: 1, text_span: [5, 9] });
  sound(480);
  assert.equal(player.calls.at(-2), "text-starved");
});

test("what goes wrong with an earlier utterance is none of this one's business", () => {
  const { speaker, sockets } = speaking();
  sockets[0].open();
  sockets[0].receive({ type: "error", code: "synthesis_failed", message: "x", fatal: false, context_id: "another" });
  assert.ok(speaker.isBusy);
  assert.equal(speaker.snapshot.problem, null);
});

test("Opus' padding is no speech: the page's account ends where the server's does", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker } = speaking();
  const start = { ...START, format: "opus", sample_rate: 24000, pre_skip: 156 };
  for (let i = 0; i < 4; i++) speaker.run.receive({ bytes: new Uint8Array(90), start, arrived_at_s: 5 });
  speaker.run.finish(start, { ...DONE, samples: 1700 });
  const { packets, audio_s } = speaker.snapshot.report;
  assert.equal(packets, 4);
  assert.ok(Math.abs(audio_s - 1700 / 24000) < 1e-9, `${audio_s}`);
});

test("the wait is counted from when the first text went out to when sound came in, by whoever knows best", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, sockets, tell } = speaking({ asLive: true });
  sockets[0].open();
  const onsent = [];
  sockets[0].send = (data, told) => onsent.push(told);
  speaker.write("One. ");
  speaker.write("Two.");
  onsent[0](7);
  onsent[1](8); // no first text
  tell(START);
  sockets[0].onmessage({ data: new ArrayBuffer(480), at_s: 7.25 });
  assert.equal(speaker.snapshot.ttfp_ms, 250);
});

test("the report holds both sides' figures, the marks and the packets", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, sockets, hear, tell, sound } = speaking();
  sockets[0].open();
  tell(START);
  tell({ type: "audio.timestamps", sentence_index: 0, status: "ok", words: [{ word: "One.", start_ms: 0, end_ms: 9, text_span: [0, 4] }] });
  sound(480);
  tell({ ...DONE, metrics: { ttfp_ms: 1, queue_ms: 0 } });
  tell({ type: "session.done", continuity: { audio_ms: 10, underrun_count: 0 } });
  await settled();
  hear({ state: "finished", played_ms: 10, played_samples: 240 });
  const report = speaker.run.report({ serverInfo: null, userAgent: "node" });
  assert.equal(report.text, "One. Two.");
  assert.equal(report.continuity.server.audio_ms, 10);
  assert.equal(report.continuity.client.audio_s, 0.01);
  assert.equal(report.continuity.heard.played_ms, 10);
  assert.deepEqual(report.packets.map(([, bytes, ms]) => [bytes, ms]), [[480, 10]]);
  assert.deepEqual(report.words, [{ word: "One.", start_ms: 0, end_ms: 9 }]);
  assert.deepEqual(report.latency.map(({ name }) => name).slice(0, 3), ["asked", "connected", "first_token_sent"]);
  assert.deepEqual(JSON.parse(JSON.stringify(report)), report);
});
