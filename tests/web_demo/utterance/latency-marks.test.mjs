// Latency marks: the rows of the latency panel.

import assert from "node:assert/strict";
import { test } from "node:test";

import { LatencyMarks, MARKS } from "../../../web_demo/utterance/latency-marks.js";

test("the rows are in order, with durations", () => {
  const marks = new LatencyMarks();
  assert.deepEqual(marks.rows(), []);
  marks.mark("asked", 1000);
  marks.mark("first_packet", 1200);
  marks.mark("connected", 1050);
  marks.mark("connected", 5000); // only the first call counts
  marks.fromServer({ ttfp_ms: 100, queue_ms: 20 });
  assert.deepEqual(marks.rows(), [
    { name: "asked", at_ms: 0, took_ms: 0 },
    { name: "connected", at_ms: 50, took_ms: 50 },
    { name: "sentence_closed", at_ms: 100, took_ms: 50 },
    { name: "work_begun", at_ms: 120, took_ms: 20 },
    { name: "first_packet", at_ms: 200, took_ms: 80 },
  ]);
});

test("no duration is negative, and their sum is the total", () => {
  const marks = new LatencyMarks();
  MARKS.forEach((name, i) => marks.mark(name, i === 3 ? -50 : 10 * i));
  const rows = marks.rows();
  assert.ok(rows.every(({ took_ms }) => took_ms >= 0));
  assert.equal(rows.reduce((sum, { took_ms }) => sum + took_ms, 0), rows.at(-1).at_ms);
});

test("the server's rows need a first packet and numeric metrics", () => {
  const marks = new LatencyMarks();
  marks.mark("asked", 0);
  marks.fromServer({ ttfp_ms: 100, queue_ms: 20 });
  marks.mark("first_packet", 500);
  marks.fromServer({ ttfp_ms: null, queue_ms: 20 });
  assert.deepEqual(marks.rows().map(({ name }) => name), ["asked", "first_packet"]);
  marks.fromServer({ ttfp_ms: 100, queue_ms: 900 });
  assert.deepEqual(marks.rows().map(({ at_ms }) => at_ms), [0, 400, 500, 500]);
  assert.throws(() => marks.mark("unknown", 0), RangeError);
});
