// Start and end of sentences and words in the played audio.

import assert from "node:assert/strict";
import { test } from "node:test";

import { SentenceTimeline } from "../../../web_demo/utterance/sentence-timeline.js";

test("word times are relative to the sentence's first sample", () => {
  const timeline = new SentenceTimeline();
  timeline.begin(0, [0, 4]);
  timeline.add(24000);
  timeline.begin(1, [5, 15]);
  timeline.time(1, "ok", [{ start_ms: 100, end_ms: 200, text_span: [5, 8] }, { start_ms: 250, end_ms: 500, text_span: [9, 15] }], 24000);
  assert.deepEqual(timeline.sentences[1].words.map(({ start, end }) => [start, end]), [[26400, 28800], [30000, 36000]]);
});

test("the played text ends after a finished word or, without word times, after a whole sentence", () => {
  const timeline = new SentenceTimeline();
  timeline.begin(0, [0, 4]);
  timeline.add(1000);
  timeline.finish(0);
  timeline.begin(1, [5, 15]);
  timeline.add(1000);
  assert.deepEqual([0, 999, 1000, 1999, 2000].map((at) => timeline.playedText(at)), [0, 0, 4, 4, 4]); // more audio may follow
  timeline.time(1, "ok", [{ start_ms: 0, end_ms: 400, text_span: [5, 8] }], 1000);
  assert.deepEqual([1399, 1400].map((at) => timeline.playedText(at)), [4, 8]);
});
