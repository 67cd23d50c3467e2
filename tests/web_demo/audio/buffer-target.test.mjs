// The head start before playing: it learns what was missed, and forgets it slowly.

import assert from "node:assert/strict";
import { test } from "node:test";

import { AdaptiveCushion } from "../../../web_demo/audio/buffer-target.js";
import { JitterBuffer } from "../../../web_demo/audio/jitter-buffer.js";
import { seeded } from "../../../web_demo/simulation/seeded-random.js";

test("it starts small, grows by what was missed, and has an end", () => {
  const cushion = new AdaptiveCushion({ leastMs: 60, mostMs: 480 });
  assert.equal(cushion.ms, 60);
  cushion.underrun(90);
  assert.equal(cushion.ms, 60 + 90 + 20); // a packet more
  cushion.underrun(5000);
  assert.equal(cushion.ms, 480);
});

test("calm makes it smaller, late and slowly, and never smaller than at first", () => {
  const cushion = new AdaptiveCushion({ leastMs: 60, mostMs: 480 });
  cushion.underrun(100);
  cushion.calm(30_000);
  assert.equal(cushion.ms, 180);
  cushion.calm(10_000);
  assert.equal(cushion.ms, 130);
  cushion.underrun(0); // from here on the calm counts anew
  cushion.calm(29_000);
  assert.equal(cushion.ms, 150);
  cushion.calm(600_000);
  assert.equal(cushion.ms, 60);
});

test("how the calm is cut into blocks does not matter", () => {
  const [whole, blocks] = [new AdaptiveCushion(), new AdaptiveCushion()];
  whole.underrun(300);
  blocks.underrun(300);
  whole.calm(40_000);
  for (let i = 0; i < 15_000; i++) blocks.calm(40_000 / 15_000);
  assert.ok(whole.ms < 350);
  assert.ok(Math.abs(whole.ms - blocks.ms) < 1e-6);
});

test("bounds that make no sense are refused", () => {
  assert.throws(() => new AdaptiveCushion({ leastMs: -1 }), RangeError);
  assert.throws(() => new AdaptiveCushion({ leastMs: 100, mostMs: 50 }), RangeError);
});

/** Underruns of one utterance whose 20 ms packets are sometimes late by `lateMs`, with all that follow in order. */
function speak(cushion, lateMs, seed) {
  const [rateHz, packetMs, packets] = [24000, 20, 300];
  const buffer = new JitterBuffer({ inputRateHz: rateHz, outputRateHz: rateHz, cushion });
  const random = seeded(seed);
  let beforeMs = 0;
  const arrivalsMs = Array.from({ length: packets }, (_, i) => (beforeMs = Math.max(beforeMs, i * packetMs + (i > 10 && random() < 0.02 ? lateMs : 0))));
  const block = new Float32Array(240); // 10 ms
  let next = 0;
  for (let nowMs = 0; buffer.state !== "finished"; nowMs += 10) {
    while (next < packets && arrivalsMs[next] <= nowMs) {
      buffer.push(new Int16Array((rateHz * packetMs) / 1000));
      next += 1;
      if (next === packets) buffer.end();
    }
    buffer.pull(block);
  }
  return buffer.stats().underruns;
}

test("on a bad line a cushion that has learned is heard to have", () => {
  let [fresh, learned] = [0, 0];
  for (let seed = 1; seed <= 10; seed++) {
    const cushion = new AdaptiveCushion();
    const first = speak(cushion, 250, seed);
    assert.ok(first >= 1, `seed ${seed}: the line is bad enough`);
    const second = speak(cushion, 250, seed + 100);
    assert.ok(second <= 1, `seed ${seed}: ${first}, then ${second}`);
    learned += second;
    fresh += speak(new AdaptiveCushion(), 250, seed + 100);
  }
  assert.ok(learned < fresh / 2, `${learned} of ${fresh}`);
});

test("a minute without a gap makes the cushion smaller", () => {
  const cushion = new AdaptiveCushion();
  cushion.underrun(200);
  const rateHz = 8000;
  const buffer = new JitterBuffer({ inputRateHz: rateHz, outputRateHz: rateHz, cushion });
  buffer.push(new Int16Array(60 * rateHz));
  buffer.pull(new Float32Array(60 * rateHz - 100));
  assert.ok(cushion.ms < 140);
  assert.equal(buffer.stats().cushion_ms, cushion.ms);
});
