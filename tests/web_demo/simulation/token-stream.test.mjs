// A text as a language model would write it.

import assert from "node:assert/strict";
import { test } from "node:test";

import { tokensOf, typeTokens } from "../../../web_demo/simulation/token-stream.js";
import { FakeTimers } from "../fakes.mjs";

const TEXTS = ["Hello world, this is an extraordinarily long sentence.", "", "   ", " a\n\nb\t", "日本語のテキスト😀👩‍🚀 ok", "one", "\u{1F600}".repeat(30)];

function type(text, options = {}) {
  const timers = new FakeTimers();
  const typed = [];
  let dones = 0;
  const typing = typeTokens(text, {
    tokensPerS: 20,
    onToken: (token, index) => typed.push({ token, index, atMs: timers.nowMs }),
    onDone: () => (dones += 1),
    schedule: timers.schedule,
    nowMs: () => timers.nowMs,
    ...options,
  });
  return { timers, typed, typing, dones: () => dones };
}

test("joined, the tokens are the text, for every text and seed", () => {
  for (const text of TEXTS) {
    for (let seed = 0; seed < 20; seed++) {
      const tokens = tokensOf(text, seed);
      assert.equal(tokens.join(""), text);
      assert.ok(tokens.every((token) => token.length > 0 && token.isWellFormed()), "no surrogate pair is torn");
    }
  }
});

test("short words stay whole, long ones are cut, the same way for the same seed", () => {
  assert.deepEqual(tokensOf("I am here"), ["I", " am", " here"]);
  const long = "incomprehensibilities";
  assert.ok(tokensOf(long).length >= 3);
  assert.deepEqual(tokensOf(long, 5), tokensOf(long, 5));
  assert.ok(new Set(Array.from({ length: 20 }, (_, seed) => tokensOf(long, seed).join("|"))).size > 1);
});

test("they come one by one, unevenly, at the pace that was asked for, and then it is done", () => {
  const text = "word ".repeat(400);
  const { timers, typed, dones } = type(text, { tokensPerS: 50 });
  timers.advance(60_000);
  assert.equal(typed.map(({ token }) => token).join(""), text);
  assert.deepEqual(typed.map(({ index }) => index), [...typed.keys()]);
  assert.equal(dones(), 1);
  const pausesMs = typed.slice(1).map(({ atMs }, i) => atMs - typed[i].atMs);
  assert.ok(Math.abs(typed.at(-1).atMs / typed.length - 20) < 1);
  assert.ok(Math.min(...pausesMs) < 12 && Math.max(...pausesMs) > 28);
  assert.ok(pausesMs.every((ms) => ms > 7 && ms < 33));
});

test("slow timers, as of a page in the background, do not slow it down", () => {
  const timers = new FakeTimers();
  const onceASecond = (ms, callback) => timers.schedule(Math.max(1000, ms), callback);
  const { typed } = type("word ".repeat(100), { schedule: onceASecond, nowMs: () => timers.nowMs });
  timers.advance(3000);
  assert.ok(typed.length >= 50 && typed.length <= 70, `${typed.length} in 3 s`);
});

test("after stop nothing more is typed, nothing is done, and no timer is left", () => {
  const { timers, typed, typing, dones } = type("one two three four five");
  timers.advance(100);
  const before = typed.length;
  assert.ok(before > 0);
  typing.stop();
  assert.equal(timers.pending, 0);
  timers.advance(10_000);
  assert.equal(typed.length, before);
  assert.equal(dones(), 0);
});

test("stop within a token's own call is heeded, also at the last one", () => {
  const made = type("only", { onToken: () => made.typing.stop() });
  made.timers.advance(10_000);
  assert.equal(made.dones(), 0);
  assert.equal(made.timers.pending, 0);
});

test("an empty text is done at once; a pace of nothing is refused", () => {
  const { timers, dones } = type("");
  timers.advance(1000);
  assert.equal(dones(), 1);
  for (const tokensPerS of [0, -1, Number.NaN]) assert.throws(() => type("x", { tokensPerS }), RangeError);
});
