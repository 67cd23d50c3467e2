// Playout ledger: the same results as realtime_tts/audio/playout.py, by shared vectors.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { PlayoutLedger } from "../../../web_demo/audio/playout.js";

const { traces: vectors } = JSON.parse(readFileSync(new URL("../../audio/playout_vectors.json", import.meta.url), "utf8"));
const TOLERANCE_S = 1e-9;

test("the report of every shared vector is the server's", () => {
  assert.ok(vectors.length > 0);
  for (const { name, packets, report: expected } of vectors) {
    const ledger = new PlayoutLedger();
    for (const [arrived_at_s, duration_s, text_starved] of packets) ledger.record({ arrived_at_s, duration_s, text_starved });
    const report = ledger.report();
    assert.deepEqual(Object.keys(report).sort(), Object.keys(expected).sort(), name);
    for (const [field, value] of Object.entries(expected)) {
      if (typeof value === "number") assert.ok(Math.abs(report[field] - value) < TOLERANCE_S, `${name}, ${field}: ${report[field]}`);
      else assert.equal(report[field], value, `${name}, ${field}`);
    }
  }
});

test("the total of the stalls is the largest un-rebased deficit", () => {
  for (let trial = 0; trial < 200; trial++) {
    const ledger = new PlayoutLedger();
    let arrived_at_s = 10 * Math.random();
    for (let i = 0; i < 40; i++) {
      ledger.record({ arrived_at_s, duration_s: 0.3 * Math.random(), text_starved: Math.random() < 0.2 });
      arrived_at_s += 0.3 * Math.random();
    }
    const report = ledger.report();
    assert.ok(Math.abs(report.underrun_total_s - report.max_underrun_s) < 1e-6);
  }
});

test("the playout end is known after every packet", () => {
  const ledger = new PlayoutLedger();
  assert.equal(ledger.playout_end_s, null);
  ledger.record({ arrived_at_s: 1, duration_s: 0.5 });
  assert.equal(ledger.playout_end_s, 1.5);
  ledger.record({ arrived_at_s: 2, duration_s: 0.25 });
  assert.equal(ledger.playout_end_s, 2.25);
});

test("invalid packets raise a RangeError and change nothing", () => {
  const ledger = new PlayoutLedger();
  ledger.record({ arrived_at_s: 1, duration_s: 0.1 });
  for (const bad of [
    { arrived_at_s: 0.9, duration_s: 0.1 },
    { arrived_at_s: Number.NaN, duration_s: 0.1 },
    ...[-0.1, Number.NaN, Infinity].map((duration_s) => ({ arrived_at_s: 2, duration_s })),
  ]) {
    assert.throws(() => ledger.record(bad), RangeError);
  }
  assert.equal(ledger.report().packets, 1);
});
