// Simulated language model output.

import assert from "node:assert/strict";
import { test } from "node:test";

import { splitTokens, streamTokens } from "../../../web_demo/simulation/token-stream.js";
import { FakeTimers } from "../fakes.mjs";

const TEXTS = ["Hello world, this is an extraordinarily long sentence.", "", "   ", " a\n\nb\t", "日本語のテキスト😀👩‍🚀 ok", "one", "\u{1F600}".repeat(30)];

function stream(text, options = {}) {
  const timers = new FakeTimers();
  const tokens = [];
  let dones = 0;
  const streaming = streamTokens(text, {
    tokensPerS: 20,
    onToken: (token, index) => tokens.push({ token, index, atMs: timers.nowMs }),
    onDone: () => (dones += 1),
    schedule: timers.schedule,
    nowMs: () => timers.nowMs,
    ...options,
  });
  return { timers, tokens, streaming, dones: () => dones };
}

test("the joined tokens are the text, for every text and seed", () => {
  for (const text of TEXTS) {
    for (let seed = 0; seed < 20; seed++) {
      const tokens = splitTokens(text, seed);
      assert.equal(tokens.join(""), text);
      assert.ok(tokens.every((token) => token.length > 0 && token.isWellFormed()), "no surrogate pair is split");
    }
  }
});

test("short words are one token, long ones are split, the same way for the same seed", () => {
  assert.deepEqual(splitTokens("I am here"), ["I", " am", " here"]);
  const long = "incomprehensibilities";
  assert.ok(splitTokens(long).length >= 3);
  assert.deepEqual(splitTokens(long, 5), splitTokens(long, 5));
  assert.ok(new Set(Array.from({ length: 20 }, (_, seed) => splitTokens(long, seed).join("|"))).size > 1);
});

test("tokens arrive one by one at random intervals, at the requested average rate", () => {
  const text = "word ".repeat(400);
  const { timers, tokens, dones } = stream(text, { tokensPerS: 50 });
  timers.advance(60_000);
  assert.equal(tokens.map(({ token }) => token).join(""), text);
  assert.deepEqual(tokens.map(({ index }) => index), [...tokens.keys()]);
  assert.equal(dones(), 1);
  const pausesMs = tokens.slice(1).map(({ atMs }, i) => atMs - tokens[i].atMs);
  assert.ok(Math.abs(tokens.at(-1).atMs / tokens.length - 20) < 1);
  assert.ok(Math.min(...pausesMs) < 12 && Math.max(...pausesMs) > 28);
  assert.ok(pausesMs.every((ms) => ms > 7 && ms < 33));
});

test("throttled timers, as in a background tab, do not change the rate", () => {
  const timers = new FakeTimers();
  const onceASecond = (ms, callback) => timers.schedule(Math.max(1000, ms), callback);
  const { tokens } = stream("word ".repeat(100), { schedule: onceASecond, nowMs: () => timers.nowMs });
  timers.advance(3000);
  assert.ok(tokens.length >= 50 && tokens.length <= 70, `${tokens.length} in 3 s`);
});

test("after stop no token follows, onDone is not called, and no timer is left", () => {
  const { timers, tokens, streaming, dones } = stream("one two three four five");
  timers.advance(100);
  const before = tokens.length;
  assert.ok(before > 0);
  streaming.stop();
  assert.equal(timers.pending, 0);
  timers.advance(10_000);
  assert.equal(tokens.length, before);
  assert.equal(dones(), 0);
});

test("stop inside onToken takes effect, also at the last token", () => {
  const made = stream("only", { onToken: () => made.streaming.stop() });
  made.timers.advance(10_000);
  assert.equal(made.dones(), 0);
  assert.equal(made.timers.pending, 0);
});

test("an empty text is done at once; an invalid rate raises a RangeError", () => {
  const { timers, dones } = stream("");
  timers.advance(1000);
  assert.equal(dones(), 1);
  for (const tokensPerS of [0, -1, Number.NaN]) assert.throws(() => stream("x", { tokensPerS }), RangeError);
});
