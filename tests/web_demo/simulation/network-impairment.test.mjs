// The bad line: what TCP would do, and the same for the same seed.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BadNetwork } from "../../../web_demo/simulation/network-impairment.js";
import { seeded } from "../../../web_demo/simulation/seeded-random.js";
import { FakeTimers } from "../fakes.mjs";

const EVERY_MS = 20;

/** Send `frames` frames, one each 20 ms; returns [frame, at_ms] as they came out. */
function run({ frames = 200, bytes = 960, during = () => {}, ...options }) {
  const timers = new FakeTimers();
  const out = [];
  const network = new BadNetwork({
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

test("a good line delivers at once, within the call", () => {
  assert.ok(lateness(run({})).every((late) => late === 0));
});

test("everything comes out once and in order, whatever the weather", () => {
  for (let seed = 1; seed <= 20; seed++) {
    const out = run({ seed, jitterMs: 150, lossPercent: 10 });
    assert.deepEqual(out.map(([frame]) => frame), [...out.keys()]);
    assert.equal(out.length, 200);
  }
});

test("jitter is at most what was asked for, and spread over it", () => {
  const late = lateness(run({ frames: 1000, jitterMs: 10 }));
  assert.ok(late.every((ms) => ms >= 0 && ms <= 10));
  assert.ok(Math.max(...late) > 9 && Math.min(...late) < 1);
});

test("a lost segment comes a timeout later, and all behind it waits", () => {
  const out = run({ lossPercent: 2, frames: 500 });
  const late = lateness(out);
  const lost = late.findIndex((ms) => ms >= 200);
  assert.ok(lost >= 0);
  const behind = out.filter(([frame, atMs]) => frame > lost && frame * EVERY_MS < out[lost][1]);
  assert.ok(behind.length >= 9);
  assert.ok(behind.every(([, atMs]) => atMs >= out[lost][1]));
});

test("large frames are many segments, of which each may be lost", () => {
  const losses = (bytes) => lateness(run({ bytes, lossPercent: 1, frames: 1000 })).filter((ms) => ms >= 200).length;
  assert.ok(losses(30_000) > 2 * losses(500));
});

test("even when everything is lost each frame comes some day", () => {
  const late = lateness(run({ lossPercent: 100, frames: 3 }));
  assert.deepEqual(late.map((ms) => ms >= 12_600), [true, true, true]); // 200 + 400 + … + 6400
});

test("the same seed gives the same weather, another seed another", () => {
  const weather = { jitterMs: 80, lossPercent: 3 };
  assert.deepEqual(run({ ...weather, seed: 5 }), run({ ...weather, seed: 5 }));
  assert.notDeepEqual(run({ ...weather, seed: 5 }), run({ ...weather, seed: 6 }));
});

test("settings change on the fly, and order is kept when the line gets better", () => {
  const out = run({
    jitterMs: 500,
    during: (network, i) => {
      if (i === 100) network.jitterMs = 0;
    },
  });
  assert.deepEqual(out.map(([frame]) => frame), [...out.keys()]);
  assert.ok(lateness(out).slice(130).every((ms) => ms === 0));
});

test("clear forgets what is on its way", () => {
  const timers = new FakeTimers();
  const out = [];
  const network = new BadNetwork({ jitterMs: 50, schedule: timers.schedule, nowMs: () => timers.nowMs, deliver: (frame) => out.push(frame) });
  network.push("old");
  network.clear();
  assert.equal(timers.pending, 0);
  network.push("new");
  timers.advance(50);
  assert.deepEqual(out, ["new"]);
});

test("a listener that throws does not dam the line", () => {
  const timers = new FakeTimers();
  const out = [];
  const network = new BadNetwork({
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

test("settings that make no sense are refused", () => {
  for (const bad of [{ jitterMs: -1 }, { jitterMs: Number.NaN }, { lossPercent: 101 }, { lossPercent: "x" }]) {
    assert.throws(() => new BadNetwork(bad), RangeError);
  }
});

test("the generator's numbers are spread over [0, 1)", () => {
  const random = seeded(3);
  const numbers = Array.from({ length: 2000 }, random);
  assert.ok(numbers.every((x) => x >= 0 && x < 1));
  assert.ok(Math.abs(numbers.reduce((sum, x) => sum + x) / 2000 - 0.5) < 0.03);
});
