// The page's small modules that need no browser: timeline, trace, words, the server's addresses and key.

import assert from "node:assert/strict";
import { test } from "node:test";

import { Api } from "../../web_demo/protocol/http-api.js";
import { SentenceTimeline } from "../../web_demo/utterance/sentence-timeline.js";
import { TORTURE_TEXTS } from "../../web_demo/simulation/difficult-texts.js";
import { Trace, traceStats } from "../../web_demo/utterance/buffer-history.js";
import * as words from "../../web_demo/panels/display-text.js";

test("words count from their sentence's first sample", () => {
  const timeline = new SentenceTimeline();
  timeline.begin(0, [0, 4]);
  timeline.add(24000);
  timeline.begin(1, [5, 15]);
  timeline.time(1, "ok", [{ start_ms: 100, end_ms: 200, text_span: [5, 8] }, { start_ms: 250, end_ms: 500, text_span: [9, 15] }], 24000);
  assert.deepEqual(timeline.sentences[1].words.map(({ start, end }) => [start, end]), [[26400, 28800], [30000, 36000]]);
});

test("what was heard ends with a finished word, or a whole sentence where no words are timed", () => {
  const timeline = new SentenceTimeline();
  timeline.begin(0, [0, 4]);
  timeline.add(1000);
  timeline.finish(0);
  timeline.begin(1, [5, 15]);
  timeline.add(1000);
  assert.deepEqual([0, 999, 1000, 1999, 2000].map((at) => timeline.heardUpTo(at)), [0, 0, 4, 4, 4]); // more may come
  timeline.time(1, "ok", [{ start_ms: 0, end_ms: 400, text_span: [5, 8] }], 1000);
  assert.deepEqual([1399, 1400].map((at) => timeline.heardUpTo(at)), [4, 8]);
});

test("a trace's waits join neighbouring samples of one kind", () => {
  const trace = new Trace();
  assert.equal(trace.extentS, null);
  const kinds = [null, "gap", "gap", null, "text", null, "gap"];
  kinds.forEach((wait, i) => trace.depth({ atS: i, depthS: i / 10, cushionS: 0, wait }));
  trace.packet(9);
  assert.deepEqual(trace.waits("gap"), [[0, 2], [5, 6]]);
  assert.deepEqual(trace.waits("text"), [[3, 4]]);
  assert.deepEqual(trace.extentS, [0, 9]);
  assert.equal(trace.deepestS(0), 0.6);
});

test("voices have human names, grouped by language in the server's order", () => {
  assert.equal(words.voiceInWords("af_heart"), "Heart — American, female");
  assert.equal(words.voiceInWords("bm_lewis"), "Lewis — British, male");
  assert.equal(words.voiceInWords("jf_alpha"), "Alpha — female");
  assert.equal(words.voiceInWords("my-own_voice"), "My Own Voice");
  const groups = words.groupVoices([{ name: "af_heart", language: "en-US" }, { name: "x", language: "" }, { name: "am_adam", language: "en-US" }]);
  assert.deepEqual(groups.map(({ label, voices }) => [label, voices.length]), [["American English", 2], ["Other", 1]]);
});

test("the verdict tells what was heard, and how late the latest packet was where nothing was", () => {
  const calm = { underruns: 0, worst_gap_ms: 0, gap_total_ms: 0, played_ms: 900, cushion_ms: 60, report: { max_underrun_s: 0.0123 } };
  assert.equal(words.gapsInWords(calm), "0 gaps · worst 12 ms");
  assert.match(words.verdictInWords(calm), /came 12 ms late, and the cushion of 60 ms hid it/);
  const torn = { ...calm, underruns: 1, worst_gap_ms: 80.4, gap_total_ms: 80.4, text_starvation_ms: 1500 };
  assert.equal(words.gapsInWords(torn), "1 gap · worst 80 ms");
  assert.match(words.verdictInWords(torn), /80 ms in all\. 1\.5 s were spent waiting for text, which is no gap/);
  assert.match(words.verdictInWords({ ...calm, played_ms: 0 }), /Nothing has been heard/);
  assert.equal(words.gapsInWords({ ...calm, played_ms: 0, outcome: "failed" }), "Not spoken"); // which is no "0 gaps"
});

test("what is not known is a dash, never a zero", () => {
  assert.equal(words.ms(null), "–");
  assert.equal(words.ms(undefined), "–");
  assert.equal(words.percent(null), "–");
  assert.equal(words.measuresInWords({ first_audible_ms: null, buffered_ms: 0 }), "");
});

test("the note about word times stands only where the server could not give them", () => {
  assert.equal(words.timingsInWords(["ok", null]), null);
  assert.match(words.timingsInWords(["ok", "unsupported"]), /whole sentences/);
});

test("errors are plain words, and a server's own words where we have none", () => {
  assert.match(words.errorInWords({ code: "overloaded", message: "x" }), /busy/);
  assert.match(words.errorInWords({ code: "overloaded", message: "x", retry_after_ms: 1200 }), /in 2 s/);
  assert.equal(words.errorInWords({ code: "brand_new", message: "Its own words." }), "Its own words.");
  assert.match(words.closeInWords({ code: 1012 }), /restarting/);
  assert.match(words.unreachableInWords(429), /429/);
});

class FakeStorage extends Map {
  getItem = (name) => this.get(name) ?? null;
  setItem = (name, value) => this.set(name, value);
  removeItem = (name) => this.delete(name);
}

function api(statuses) {
  const asked = [];
  const storage = new FakeStorage();
  const fetch = async (url, { headers }) => {
    asked.push([url.pathname ?? new URL(url).pathname, headers.Authorization]);
    return { status: statuses[0], ok: statuses.shift() === 200 };
  };
  return { api: new Api({ base: "https://there/demo/", storage, fetch }), asked, storage };
}

test("addresses are below the page's own, and the socket is as safe as the page", () => {
  const { api: it } = api([]);
  assert.equal(it.url("readyz").href, "https://there/demo/readyz");
  assert.equal(it.socketUrl(), "wss://there/demo/v1/audio/speech/stream");
  assert.equal(it.socketUrl("policy_c"), "wss://there/demo/v1/audio/speech/stream?scheduler=policy_c");
});

test("a key goes into the header alone, and into the tab's storage only when asked", async () => {
  const { api: it, asked, storage } = api([401, 200]);
  let locked = 0;
  it.onlocked = () => (locked += 1);
  await it.request("v1/audio/voices");
  assert.equal(locked, 1);
  it.setKey(" secret ", { keep: false });
  await it.request("v1/audio/voices");
  assert.deepEqual(asked, [["/demo/v1/audio/voices", undefined], ["/demo/v1/audio/voices", "Bearer secret"]]);
  assert.equal(locked, 1);
  assert.equal(storage.size, 0);
  it.setKey("secret", { keep: true });
  assert.deepEqual([...storage.values()], ["secret"]);
  it.setKey("", { keep: true });
  assert.equal(storage.size, 0);
});

test("a server that does not answer is null, not an error", async () => {
  const it = new Api({ base: "http://there/", storage: new FakeStorage(), fetch: async () => Promise.reject(new TypeError("no")) });
  assert.equal(await it.request("readyz"), null);
  assert.equal(await it.probe(), null);
});

test("the awkward texts have each what their name says", () => {
  const by = Object.fromEntries(TORTURE_TEXTS.map(({ name, text }) => [name, text]));
  assert.equal(Object.keys(by).length, TORTURE_TEXTS.length);
  assert.match(by.Code, /```/);
  assert.match(by["Thoughts and tags"], /<think>.*<\/think>/);
  assert.match(by.Emoji, /\u200d/);
  assert.ok(by["One long sentence"].length > 300);
});

test("a wait is drawn as what it turned out to be", () => {
  const trace = new Trace();
  const now = { buffered_ms: 0, cushion_ms: 60, gap_open_ms: 0, text_wait_ms: 0, underruns: 0, text_starvation_ms: 0 };
  traceStats(trace, now, 0);
  traceStats(trace, { ...now, text_wait_ms: 50 }, 1); // taken for a wait for text …
  traceStats(trace, { ...now, gap_open_ms: 100 }, 2);
  traceStats(trace, { ...now, underruns: 1 }, 3); // … but the sound was late
  assert.deepEqual([trace.waits("gap"), trace.waits("text")], [[[0, 2]], []]);
  traceStats(trace, { ...now, underruns: 1, gap_open_ms: 100 }, 4);
  traceStats(trace, { ...now, underruns: 1, text_starvation_ms: 100 }, 5);
  assert.deepEqual([trace.waits("gap"), trace.waits("text")], [[[0, 2]], [[3, 4]]]);
  trace.clear();
  traceStats(trace, { ...now, gap_open_ms: 100 }, 6);
  assert.deepEqual(trace.waits("gap"), [[6, 6]]);
  traceStats(trace, { ...now, text_starvation_ms: 100 }, 7); // counted anew
  assert.deepEqual(trace.waits("text"), [[6, 6]]);
});
