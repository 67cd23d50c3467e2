// Adaptive target of the jitter buffer: growth after underruns, slow decay.

import assert from "node:assert/strict";
import { test } from "node:test";

import { AdaptiveBufferTarget } from "../../../web_demo/audio/buffer-target.js";
import { JitterBuffer } from "../../../web_demo/audio/jitter-buffer.js";
import { seededRandom } from "../../../web_demo/simulation/seeded-random.js";

test("the target grows by the lateness of each underrun, up to its maximum", () => {
  const target = new AdaptiveBufferTarget({ minMs: 60, maxMs: 480 });
  assert.equal(target.ms, 60);
  target.recordUnderrun(90);
  assert.equal(target.ms, 60 + 90 + 20); // the margin of one packet
  target.recordUnderrun(5000);
  assert.equal(target.ms, 480);
});

test("the target decays after 30 s without an underrun, down to its minimum", () => {
  const target = new AdaptiveBufferTarget({ minMs: 60, maxMs: 480 });
  target.recordUnderrun(100);
  target.recordPlayback(30_000);
  assert.equal(target.ms, 180);
  target.recordPlayback(10_000);
  assert.equal(target.ms, 130);
  target.recordUnderrun(0); // restarts the 30 s
  target.recordPlayback(29_000);
  assert.equal(target.ms, 150);
  target.recordPlayback(600_000);
  assert.equal(target.ms, 60);
});

test("the block size of the playback does not change the decay", () => {
  const [whole, blocks] = [new AdaptiveBufferTarget(), new AdaptiveBufferTarget()];
  whole.recordUnderrun(300);
  blocks.recordUnderrun(300);
  whole.recordPlayback(40_000);
  for (let i = 0; i < 15_000; i++) blocks.recordPlayback(40_000 / 15_000);
  assert.ok(whole.ms < 350);
  assert.ok(Math.abs(whole.ms - blocks.ms) < 1e-6);
});

test("invalid bounds raise a RangeError", () => {
  assert.throws(() => new AdaptiveBufferTarget({ minMs: -1 }), RangeError);
  assert.throws(() => new AdaptiveBufferTarget({ minMs: 100, maxMs: 50 }), RangeError);
});

/** Underruns of one utterance whose 20 ms packets are sometimes late by `lateMs`; later packets keep the order. */
function underrunsOf(target, lateMs, seed) {
  const [rateHz, packetMs, packets] = [24000, 20, 300];
  const buffer = new JitterBuffer({ inputRateHz: rateHz, outputRateHz: rateHz, target });
  const random = seededRandom(seed);
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

test("on a network with jitter an adapted target avoids most underruns", () => {
  let [initial, adapted] = [0, 0];
  for (let seed = 1; seed <= 10; seed++) {
    const target = new AdaptiveBufferTarget();
    const first = underrunsOf(target, 250, seed);
    assert.ok(first >= 1, `seed ${seed}: the network causes an underrun`);
    const second = underrunsOf(target, 250, seed + 100);
    assert.ok(second <= 1, `seed ${seed}: ${first}, then ${second}`);
    adapted += second;
    initial += underrunsOf(new AdaptiveBufferTarget(), 250, seed + 100);
  }
  assert.ok(adapted < initial / 2, `${adapted} of ${initial}`);
});

test("a minute of playback without an underrun lowers the target", () => {
  const target = new AdaptiveBufferTarget();
  target.recordUnderrun(200);
  const rateHz = 8000;
  const buffer = new JitterBuffer({ inputRateHz: rateHz, outputRateHz: rateHz, target });
  buffer.push(new Int16Array(60 * rateHz));
  buffer.pull(new Float32Array(60 * rateHz - 100));
  assert.ok(target.ms < 140);
  assert.equal(buffer.stats().buffer_target_ms, target.ms);
});
