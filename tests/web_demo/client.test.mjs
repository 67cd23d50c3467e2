// The protocol client, the speaker, the timeline and the page's words, without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SpeechClient } from "../../web_demo/client.js";
import { Speaker } from "../../web_demo/speaker.js";
import { SentenceTimeline } from "../../web_demo/timeline.js";
import { closeInWords, errorInWords, groupVoices, measuresInWords, unreachableInWords, voiceInWords } from "../../web_demo/words.js";

class FakeSocket {
  readyState = 0;
  sent = [];
  open() {
    this.readyState = 1;
    this.onopen();
  }
  send(data) {
    this.sent.push(JSON.parse(data));
  }
  close() {
    this.readyState = 3;
  }
  receive(message) {
    this.onmessage({ data: message instanceof ArrayBuffer ? message : JSON.stringify(message) });
  }
  lose(code, reason = "") {
    this.readyState = 3;
    this.onclose({ code, reason });
  }
}

function connect() {
  const sockets = [];
  const events = [];
  const client = new SpeechClient({
    url: "ws://here/",
    openSocket: () => (sockets.push(new FakeSocket()), sockets.at(-1)),
    nowS: () => 5,
  });
  for (const type of ["open", "audio.start", "audio", "session.done", "error", "closed"]) {
    client.on(type, (detail) => events.push([type, detail]));
  }
  return { client, sockets, events };
}

test("speak sends config, text and done, once the socket is open", () => {
  const { client, sockets } = connect();
  client.speak({ text: "Hi.", voice: "af_heart" });
  assert.deepEqual(sockets[0].sent, []);
  sockets[0].open();
  assert.deepEqual(sockets[0].sent, [
    { type: "session.config", response_format: "pcm", stream_audio: true, voice: "af_heart" },
    { type: "input.text", text: "Hi." },
    { type: "input.done" },
  ]);
});

test("an open socket is used again; a lost one is replaced", () => {
  const { client, sockets } = connect();
  client.speak({ text: "One." });
  sockets[0].open();
  sockets[0].receive({ type: "session.done" });
  client.speak({ text: "Two." });
  assert.equal(sockets.length, 1);
  sockets[0].receive({ type: "session.done" });
  sockets[0].lose(1001);
  client.speak({ text: "Three." });
  assert.equal(sockets.length, 2);
});

test("unknown types and fields are ignored", () => {
  const { client, sockets, events } = connect();
  client.speak({ text: "One." });
  sockets[0].open();
  sockets[0].receive({ type: "something.new", x: 1 });
  sockets[0].receive({ type: "session.done", total_sentences: 0, y: 2 });
  assert.deepEqual(events.map(([type]) => type), ["open", "session.done"]);
});

test("audio carries its samples and its time of arrival", () => {
  const { client, sockets, events } = connect();
  client.speak({ text: "One." });
  sockets[0].open();
  sockets[0].receive(Int16Array.of(1, -2, 3).buffer);
  assert.deepEqual(events.at(-1), ["audio", { samples: Int16Array.of(1, -2, 3), arrived_at_s: 5 }]);
});

test("after close or cancel nothing of the old socket is heard", () => {
  const { client, sockets, events } = connect();
  client.speak({ text: "One." });
  sockets[0].open();
  client.cancel();
  sockets[0].receive(Int16Array.of(1).buffer);
  sockets[0].lose(1000);
  assert.deepEqual(events.map(([type]) => type), ["open"]);
  client.speak({ text: "Two." });
  assert.equal(sockets.length, 2);
});

test("a cancel before the socket opened sends nothing when it opens", () => {
  const { client, sockets } = connect();
  client.speak({ text: "One." });
  client.cancel();
  sockets[0].open();
  assert.deepEqual(sockets[0].sent, []);
});

test("half a sample, or text that is not JSON, ends the socket with an error", () => {
  for (const bad of [new ArrayBuffer(3), "{"]) {
    const { client, sockets, events } = connect();
    client.speak({ text: "One." });
    sockets[0].open();
    sockets[0].onmessage({ data: bad });
    assert.equal(events.at(-1)[1].code, "bad_server_message");
    assert.ok(!client.isOpen && !client.isInFlight);
  }
});

// -- Speaker ----------------------------------------------------------------------------------------------------------

class FakePlayer {
  calls = [];
  isRunning = true;
  outputLatencyMs = 0;
  prepare = async () => {};
  heardAtMs = ({ context_time_s }) => context_time_s * 1000;
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
  end() {
    this.calls.push("end");
  }
  stop() {
    this.calls.push("stop");
  }
  report(stats) {
    this.onstats({ utterance: this.utterance, state: "playing", played_samples: 0, played_ms: 0, buffered_ms: 0, underruns: 0,
      gap_worst_ms: 0, gap_open_ms: 0, rms: 0, first_audible: null, ...stats });
  }
}

function speaking(probe = async () => 200) {
  const { client, sockets } = connect();
  const player = new FakePlayer();
  const speaker = new Speaker({ client, player, probe });
  speaker.speak({ text: "One. Two.", voice: "", askedAtMs: 0 });
  return { speaker, player, sockets };
}

const START = { type: "audio.start", sentence_index: 0, sentence_text: "One.", format: "pcm", sample_rate: 24000 };

test("one utterance, from the press to the last sample", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets } = speaking();
  assert.equal(speaker.snapshot.state, "connecting");
  sockets[0].open();
  assert.equal(speaker.snapshot.state, "waiting");
  sockets[0].receive(START);
  sockets[0].receive(new ArrayBuffer(480));
  sockets[0].receive({ type: "audio.done", sentence_index: 0, error: false });
  sockets[0].receive({ type: "session.done", continuity: { underrun_count: 0 } });
  assert.deepEqual(player.calls, ["begin 24000", "push 240", "sentence-done", "end"]);
  player.report({ played_ms: 5, first_audible: { context_time_s: 0.182 }, context_time_s: 0.2 });
  assert.equal(speaker.snapshot.state, "speaking");
  assert.equal(speaker.snapshot.first_audible_ms, 182);
  player.report({ state: "finished", played_ms: 10 });
  assert.equal(speaker.snapshot.state, "idle");
  assert.equal(speaker.snapshot.outcome, "spoken");
  assert.deepEqual(speaker.snapshot.server_report, { underrun_count: 0 });
});

test("an utterance without a sound ends all the same", () => {
  const { speaker, sockets } = speaking();
  sockets[0].open();
  sockets[0].receive({ type: "session.done", total_sentences: 0 });
  assert.equal(speaker.snapshot.outcome, "spoken");
});

test("one failed sentence is said, and the others go on", () => {
  const { speaker, player, sockets } = speaking();
  sockets[0].open();
  sockets[0].receive({ type: "error", code: "synthesis_failed", message: "x", fatal: false, sentence_index: 0 });
  assert.match(speaker.snapshot.problem, /stumbled/);
  assert.ok(speaker.isBusy);
  sockets[0].receive({ ...START, sentence_index: 1 });
  assert.deepEqual(player.calls, ["begin 24000"]);
});

test("a loss in mid-speech plays what has arrived, and says that it is not all", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets } = speaking();
  sockets[0].open();
  sockets[0].receive(START);
  sockets[0].receive(new ArrayBuffer(480));
  sockets[0].lose(1006);
  assert.match(speaker.snapshot.problem, /connection was lost/);
  assert.equal(player.calls.at(-1), "end");
  player.report({ state: "finished" });
  assert.equal(speaker.snapshot.outcome, "failed");
});

test("a socket that never opens is explained by /readyz", async () => {
  for (const [status, words] of [[null, /cannot be reached/], [503, /not ready yet/], [200, /may be full/]]) {
    const { speaker, sockets } = speaking(async () => status);
    sockets[0].lose(1006);
    await new Promise((resolve) => setImmediate(resolve));
    assert.match(speaker.snapshot.problem, words);
    assert.equal(speaker.snapshot.outcome, "failed");
  }
});

test("stats of an utterance that was stopped do not touch the next one", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets } = speaking();
  sockets[0].open();
  sockets[0].receive(START);
  sockets[0].receive(new ArrayBuffer(480));
  speaker.speak({ text: "Again.", voice: "", askedAtMs: 0 });
  player.report({ state: "finished", played_ms: 99 });
  assert.equal(speaker.snapshot.played_ms, 0);
  assert.equal(speaker.snapshot.state, "connecting");
});

test("sound that the browser holds back is said", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { speaker, player, sockets } = speaking();
  player.isRunning = false;
  sockets[0].open();
  sockets[0].receive(START);
  sockets[0].receive(new ArrayBuffer(480));
  t.mock.timers.tick(2000);
  assert.match(speaker.snapshot.problem, /holding the sound back/);
});

// -- Timeline and words -----------------------------------------------------------------------------------------------

test("the playhead decides which sentence is heard", () => {
  const timeline = new SentenceTimeline();
  timeline.begin(0, "One.");
  timeline.add(100);
  timeline.begin(1, "Two.");
  timeline.add(50);
  assert.deepEqual([0, 1, 99, 100, 149, 150].map((at) => timeline.at(at)), [-1, 0, 0, 1, 1, -1]);
  assert.deepEqual(timeline.heard(125), [1, 0.5]);
});

test("voices have human names, grouped by language in the server's order", () => {
  assert.equal(voiceInWords("af_heart"), "Heart — American, female");
  assert.equal(voiceInWords("bm_lewis"), "Lewis — British, male");
  assert.equal(voiceInWords("jf_alpha"), "Alpha — female");
  assert.equal(voiceInWords("my-own_voice"), "My Own Voice");
  const groups = groupVoices([{ name: "af_heart", language: "en-US" }, { name: "x", language: "" }, { name: "am_adam", language: "en-US" }]);
  assert.deepEqual(groups.map(({ label, voices }) => [label, voices.length]), [["American English", 2], ["Other", 1]]);
});

test("the measures read as one line", () => {
  const measures = { first_audible_ms: 182.4, buffered_ms: 1410, underruns: 0, worst_gap_ms: 0 };
  assert.equal(measuresInWords(measures), "first sound 182 ms · buffer 1.4 s · 0 gaps (worst 0 ms)");
  assert.match(measuresInWords({ ...measures, first_audible_ms: null, underruns: 1, worst_gap_ms: 80 }), /^first sound – .* 1 gap \(worst 80 ms\)$/);
});

test("errors are plain words, and a server's own words where we have none", () => {
  assert.match(errorInWords({ code: "overloaded", message: "x" }), /busy/);
  assert.equal(errorInWords({ code: "brand_new", message: "Its own words." }), "Its own words.");
  assert.match(closeInWords({ code: 1012 }), /restarting/);
  assert.match(unreachableInWords(429), /429/);
});
