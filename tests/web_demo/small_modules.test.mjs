// Tokens, latency marks, the report, and the microphone's decision.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LatencyMarks, MARKS } from "../../web_demo/utterance/latency-marks.js";
import { MicrophoneError, MicrophoneLevel, rms, SpeechOnset } from "../../web_demo/audio/microphone.js";
import { sessionReport } from "../../web_demo/utterance/report.js";
import { TokenError, tokenSource } from "../../web_demo/protocol/token-source.js";

// -- Tokens -----------------------------------------------------------------------------------------------------------

const answer = (status, body, headers = {}) => async () => new Response(typeof body === "string" ? body : JSON.stringify(body), { status, headers });

test("a key is exchanged for a token, each time anew", async () => {
  const asked = [];
  const token = tokenSource({
    url: "/v1/realtime/tokens",
    key: () => " secret ",
    fetch: async (url, { method, headers }) => {
      asked.push([url, method, headers.Authorization]);
      return new Response(JSON.stringify({ token: `t${asked.length}`, expires_at: 1 }));
    },
  });
  assert.deepEqual([await token(), await token()], ["t1", "t2"]);
  assert.deepEqual(asked[0], ["/v1/realtime/tokens", "POST", "Bearer secret"]);
});

test("without a key nothing is asked", async () => {
  assert.equal(await tokenSource({ url: "/", key: () => "  ", fetch: () => assert.fail("asked") })(), null);
});

test("a refusal says why, whether to come again, and when", async () => {
  const refusals = [
    [answer(401, { error: { code: "unauthorized", message: "no" } }), { code: "unauthorized", status: 401, retryable: false, retryAfterS: null }],
    [answer(429, { error: { code: "quota_exceeded", message: "no" } }, { "Retry-After": "7" }), { code: "quota_exceeded", status: 429, retryable: true, retryAfterS: 7 }],
    [answer(502, "<html>"), { code: "refused", status: 502, retryable: true, retryAfterS: null }],
    [answer(200, {}), { code: "bad_answer", status: null, retryable: true, retryAfterS: null }],
    [() => Promise.reject(new TypeError("offline")), { code: "unreachable", status: null, retryable: true, retryAfterS: null }],
  ];
  for (const [fetch, expected] of refusals) {
    await assert.rejects(tokenSource({ url: "/", key: () => "k", fetch })(), (error) => {
      const { code, status, retryable, retryAfterS } = error;
      assert.deepEqual({ code, status, retryable, retryAfterS }, expected);
      assert.ok(!error.message.includes("Bearer"));
      return error instanceof TokenError;
    });
  }
});

// -- Latency ----------------------------------------------------------------------------------------------------------

test("the marks make a waterfall from the press on, in their order", () => {
  const marks = new LatencyMarks();
  assert.deepEqual(marks.rows(), []);
  marks.mark("asked", 1000);
  marks.mark("first_packet", 1200);
  marks.mark("connected", 1050);
  marks.mark("connected", 5000); // the first time counts
  marks.fromServer({ ttfp_ms: 100, queue_ms: 20 });
  assert.deepEqual(marks.rows(), [
    { name: "asked", at_ms: 0, took_ms: 0 },
    { name: "connected", at_ms: 50, took_ms: 50 },
    { name: "sentence_closed", at_ms: 100, took_ms: 50 },
    { name: "work_begun", at_ms: 120, took_ms: 20 },
    { name: "first_packet", at_ms: 200, took_ms: 80 },
  ]);
});

test("no row goes back in time, and the parts add up to the whole", () => {
  const marks = new LatencyMarks();
  MARKS.forEach((name, i) => marks.mark(name, i === 3 ? -50 : 10 * i));
  const rows = marks.rows();
  assert.ok(rows.every(({ took_ms }) => took_ms >= 0));
  assert.equal(rows.reduce((sum, { took_ms }) => sum + took_ms, 0), rows.at(-1).at_ms);
});

test("the server's part is only told once there is a packet, and from numbers", () => {
  const marks = new LatencyMarks();
  marks.mark("asked", 0);
  marks.fromServer({ ttfp_ms: 100, queue_ms: 20 });
  marks.mark("first_packet", 500);
  marks.fromServer({ ttfp_ms: null, queue_ms: 20 });
  assert.deepEqual(marks.rows().map(({ name }) => name), ["asked", "first_packet"]);
  marks.fromServer({ ttfp_ms: 100, queue_ms: 900 });
  assert.deepEqual(marks.rows().map(({ at_ms }) => at_ms), [0, 400, 500, 500]);
  assert.throws(() => marks.mark("lunch", 0), RangeError);
});

// -- Report -----------------------------------------------------------------------------------------------------------

test("a report is plain JSON with a version, and what is not known is null", () => {
  const empty = sessionReport({ config: {}, text: "" });
  assert.deepEqual(JSON.parse(JSON.stringify(empty)), empty);
  assert.equal(empty.version, 1);
  assert.deepEqual(empty.continuity, { client: null, server: null, heard: null });
  assert.equal(empty.cancelled, null);
});

test("a report holds what was measured, and nothing that was not asked for", () => {
  const report = sessionReport({
    config: { voice: "a" },
    text: "Hi.",
    client: { max_underrun_s: 0.1 },
    server: { max_underrun_ms: 90 },
    heard: { played_ms: 10, underruns: 1, rms: 0.5 },
    marks: [{ name: "asked", at_ms: 0, took_ms: 0 }],
    packets: [{ at_ms: 12.345, bytes: 960, duration_ms: 20 }],
    sentences: [{ index: 0, text: "Hi.", start: 0, end: 480, metrics: { rtf: 0.1 } }],
    words: [{ word: "Hi", start_ms: 0, end_ms: 20, text_span: [0, 2] }],
    cancelled: { type: "audio.cancelled", text_spoken: "H", text_remaining: "i.", audio_played_ms: 5, source: "reported" },
    serverInfo: { model: "tone", session_id: "x", sample_rate: 24000, limits: {} },
  });
  assert.deepEqual(report.packets, [[12.3, 960, 20]]);
  assert.deepEqual(report.sentences, [{ index: 0, text: "Hi.", error: false, metrics: { rtf: 0.1 } }]);
  assert.deepEqual(report.words, [{ word: "Hi", start_ms: 0, end_ms: 20 }]);
  assert.deepEqual(report.cancelled, { text_spoken: "H", text_remaining: "i.", audio_played_ms: 5, source: "reported" });
  assert.equal(report.continuity.heard.underruns, 1);
  assert.ok(!("rms" in report.continuity.heard) && !("limits" in report.server));
  assert.deepEqual(JSON.parse(JSON.stringify(report)).version, 1);
});

// -- Microphone -------------------------------------------------------------------------------------------------------

/** The times at which speech begins, of levels 20 ms apart. */
function onsets(levels, options) {
  const onset = new SpeechOnset({ threshold: 0.1, holdMs: 80, restMs: 200, ...options });
  return levels.flatMap((level, i) => (onset.push(level, 20 * i) ? [20 * i] : []));
}

test("speech is what stays loud for 80 ms, and begins once", () => {
  assert.deepEqual(onsets([0, 0.2, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3]), [100]);
  assert.deepEqual(onsets([0.2, 0.2, 0.2, 0.2, 0, 0.2, 0.2, 0.2, 0.2, 0]), [], "clicks are too short");
  assert.deepEqual(onsets(Array(100).fill(0.09)), []);
  assert.deepEqual(onsets(Array(100).fill(Number.NaN)), []);
});

test("a breath does not end the speech; a rest does", () => {
  const loud = Array(6).fill(0.5);
  assert.deepEqual(onsets([...loud, 0, 0, ...loud]), [80]);
  assert.deepEqual(onsets([...loud, ...Array(12).fill(0), ...loud]), [80, 20 * (6 + 12 + 4)]);
});

test("the level is the root mean square", () => {
  assert.equal(rms(Float32Array.of(0.5, -0.5)), 0.5);
  assert.equal(rms(new Float32Array(0)), 0);
});

class FakeStream {
  tracks = [{ stopped: false, stop() { this.stopped = true; } }];
  getTracks = () => this.tracks;
}

class FakeContext {
  closed = false;
  createAnalyser = () => ({ getFloatTimeDomainData: (samples) => samples.fill(0.5) });
  createMediaStreamSource = () => ({ connect() {} });
  close = async () => void (this.closed = true);
}

test("the microphone is heard, and given back by stop", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  const [stream, context, levels] = [new FakeStream(), new FakeContext(), []];
  let wish;
  const microphone = new MicrophoneLevel({
    onlevel: (level) => levels.push(level),
    onspeech: () => {},
    media: { getUserMedia: async (asked) => ((wish = asked), stream) },
    openContext: () => context,
  });
  assert.equal(await microphone.start(), true);
  assert.deepEqual(wish, { audio: { echoCancellation: true, noiseSuppression: true } });
  t.mock.timers.tick(40);
  assert.deepEqual(levels, [0.5, 0.5]);
  microphone.stop();
  t.mock.timers.tick(100);
  assert.equal(levels.length, 2);
  assert.ok(stream.tracks[0].stopped && context.closed);
});

test("a permission that comes after stop opens nothing", async () => {
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
  assert.ok(stream.tracks[0].stopped);
});

test("no microphone, no permission, no way to read it: a typed error, and the tracks are freed", async () => {
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
  assert.ok(stream.tracks[0].stopped);
});
