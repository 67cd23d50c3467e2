// Report of one utterance.

import assert from "node:assert/strict";
import { test } from "node:test";

import { utteranceReport } from "../../../web_demo/utterance/report.js";
import { Utterance } from "../../../web_demo/utterance/utterance.js";

const saved = (utterance, info) => JSON.parse(JSON.stringify(utteranceReport(utterance, info)));

test("a report has a version, and unknown values are null", () => {
  const report = saved(new Utterance({ contextId: "u1", config: {}, askedAtMs: 0 }));
  assert.equal(report.version, 2);
  assert.deepEqual([report.server, report.browser, report.cancelled, report.continuity.server], [null, null, null, null]);
  assert.equal(report.continuity.client.packets, 0);
});

test("a report has the measured values, with the documented fields only", () => {
  const utterance = new Utterance({ contextId: "u1", config: { voice: "a" }, askedAtMs: 1000 });
  utterance.addText("Hi.", 1);
  const start = { sentence_index: 0, sentence_text: "Hi.", text_span: [0, 3], format: "pcm", sample_rate: 24000 };
  utterance.addPacket({ bytes: new Uint8Array(960), start, arrived_at_s: 1.012345 });
  utterance.finishSentence(start, { reason: "complete", samples: 480, error: false, metrics: { rtf: 0.1 } });
  utterance.words.push({ word: "Hi", start_ms: 0, end_ms: 20, text_span: [0, 2] });
  utterance.stats = { ...utterance.stats, played_ms: 10, underruns: 1, rms: 0.5 };
  utterance.cancelled = { type: "audio.cancelled", text_spoken: "H", text_remaining: "i.", audio_played_ms: 5, source: "reported" };
  const report = saved(utterance, { serverInfo: { model: "tone", session_id: "x", sample_rate: 24000, limits: {} }, userAgent: "node" });
  assert.deepEqual(report.packets, [[12.3, 960, 20]]);
  assert.deepEqual(report.sentences, [{ index: 0, text: "Hi.", error: false, metrics: { rtf: 0.1 } }]);
  assert.deepEqual(report.words, [{ word: "Hi", start_ms: 0, end_ms: 20 }]);
  assert.deepEqual(report.cancelled, { text_spoken: "H", text_remaining: "i.", audio_played_ms: 5, source: "reported" });
  assert.deepEqual(report.server, { model: "tone", session_id: "x", sample_rate: 24000 });
  assert.equal(report.continuity.playback.underruns, 1);
  assert.ok(!("rms" in report.continuity.playback));
});
