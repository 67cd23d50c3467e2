// Network impairment: delays as of TCP, reproducible by seed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ImpairedNetwork } from "../../../web_demo/simulation/network-impairment.js";
import { seededRandom } from "../../../web_demo/simulation/seeded-random.js";
import { FakeTimers } from "../fakes.mjs";

const EVERY_MS = 20;

/** Send `frames` frames, one every 20 ms; returns [frame, at_ms] as delivered. */
function run({ frames = 200, bytes = 960, during = () => {}, ...options }) {
  const timers = new FakeTimers();
  const out = [];
  const network = new ImpairedNetwork({
    schedule: timers.schedule,
    nowMs: () => timers.nowMs,
    deliver: (frame) => out.push([frame, timers.nowMs]),
    ...options,
  });
  for (let i = 0; i < frames; i++) {
    during(network, i);
    network.push(i, bytes);
    timers.advance(EVERY_MS);
  }
  timers.advance(60_000);
  assert.equal(timers.pending, 0);
  return out;
}

const lateness = (out) => out.map(([frame, atMs]) => atMs - frame * EVERY_MS);

test("without impairment frames are delivered at once, within the call", () => {
  assert.ok(lateness(run({})).every((late) => late === 0));
});

test("every frame is delivered once and in order", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const out = run({ seed, jitterMs: 150, lossPercent: 10 });
    assert.deepEqual(out.map(([frame]) => frame), [...out.keys()]);
    assert.equal(out.length, 200);
  }
});

test("jitter is uniform up to its setting", () => {
  const late = lateness(run({ frames: 1000, jitterMs: 10 }));
  assert.ok(late.every((ms) => ms >= 0 && ms <= 10));
  assert.ok(Math.max(...late) > 9 && Math.min(...late) < 1);
});

test("a lost segment arrives a timeout later, and later frames wait for it", () => {
  const out = run({ lossPercent: 2, frames: 500 });
  const late = lateness(out);
  const lost = late.findIndex((ms) => ms >= 200);
  assert.ok(lost >= 0);
  const behind = out.filter(([frame, atMs]) => frame > lost && frame * EVERY_MS < out[lost][1]);
  assert.ok(behind.length >= 9);
  assert.ok(behind.every(([, atMs]) => atMs >= out[lost][1]));
});

test("large frames have many segments, each of which may be lost", () => {
  const losses = (bytes) => lateness(run({ bytes, lossPercent: 1, frames: 1000 })).filter((ms) => ms >= 200).length;
  assert.ok(losses(30_000) > 2 * losses(500));
});

test("at 100 % loss each frame still arrives after the last retry", () => {
  const late = lateness(run({ lossPercent: 100, frames: 3 }));
  assert.deepEqual(late.map((ms) => ms >= 12_600), [true, true, true]); // 200 + 400 + … + 6400
});

test("the same seed gives the same delays, another seed others", () => {
  const impairment = { jitterMs: 80, lossPercent: 3 };
  assert.deepEqual(run({ ...impairment, seed: 5 }), run({ ...impairment, seed: 5 }));
  assert.notDeepEqual(run({ ...impairment, seed: 5 }), run({ ...impairment, seed: 6 }));
});

test("settings can change during a run, and the order is kept", () => {
  const out = run({
    jitterMs: 500,
    during: (network, i) => {
      if (i === 100) network.jitterMs = 0;
    },
  });
  assert.deepEqual(out.map(([frame]) => frame), [...out.keys()]);
  assert.ok(lateness(out).slice(130).every((ms) => ms === 0));
});

test("clear drops the delayed frames", () => {
  const timers = new FakeTimers();
  const out = [];
  const network = new ImpairedNetwork({ jitterMs: 50, schedule: timers.schedule, nowMs: () => timers.nowMs, deliver: (frame) => out.push(frame) });
  network.push("old");
  network.clear();
  assert.equal(timers.pending, 0);
  network.push("new");
  timers.advance(50);
  assert.deepEqual(out, ["new"]);
});

test("an exception in deliver does not block later frames", () => {
  const timers = new FakeTimers();
  const out = [];
  const network = new ImpairedNetwork({
    jitterMs: 50,
    schedule: timers.schedule,
    nowMs: () => timers.nowMs,
    deliver: (frame) => {
      if (frame === "bad") throw new Error("listener");
      out.push(frame);
    },
  });
  network.push("bad");
  network.push("good");
  assert.throws(() => timers.advance(50), /listener/);
  timers.advance(50);
  assert.deepEqual(out, ["good"]);
});

test("invalid settings raise a RangeError", () => {
  for (const bad of [{ jitterMs: -1 }, { jitterMs: Number.NaN }, { lossPercent: 101 }, { lossPercent: "x" }]) {
    assert.throws(() => new ImpairedNetwork(bad), RangeError);
  }
});

test("the random numbers are uniform in [0, 1)", () => {
  const random = seededRandom(3);
  const numbers = Array.from({ length: 2000 }, random);
  assert.ok(numbers.every((x) => x >= 0 && x < 1));
  assert.ok(Math.abs(numbers.reduce((sum, x) => sum + x) / 2000 - 0.5) < 0.03);
});
