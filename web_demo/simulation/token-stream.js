// Simulated language model output: a text in tokens, at an average rate with random intervals.

import { afterMs } from "../protocol/client.js";
import { seededRandom } from "./seeded-random.js";

const MAX_TOKEN_LENGTH = 6; // longer words are split
const VARIATION = 0.6; // an interval is 0.4 to 1.6 times the average

/** The tokens, the same for the same seed; joined they are the text.  A token includes the space before it. */
export function splitTokens(text, seed = 1) {
  const random = seededRandom(seed);
  return (text.match(/\s*\S+|\s+$/gu) ?? []).flatMap((word) => splitWord(word, random));
}

function splitWord(word, random) {
  const letters = [...word]; // code points: no surrogate pair is split
  const tokens = [];
  for (let at = 0; at < letters.length; ) {
    const left = letters.length - at;
    const size = left <= MAX_TOKEN_LENGTH ? left : 3 + Math.floor(random() * (MAX_TOKEN_LENGTH - 2));
    tokens.push(letters.slice(at, at + size).join(""));
    at += size;
  }
  return tokens;
}

/**
 * Calls `onToken(token, index)` for each token and then `onDone()`, until `stop()` is called.
 * `schedule(ms, callback)` returns a function that cancels the timer.
 */
export function streamTokens(
  text,
  { tokensPerS, seed = 1, onToken, onDone = () => {}, schedule = afterMs, nowMs = () => performance.now() },
) {
  if (!(tokensPerS > 0)) throw new RangeError(`tokensPerS must be positive, got ${tokensPerS}`);
  const tokens = splitTokens(text, seed);
  const random = seededRandom(seed + 1);
  const intervalMs = () => (1000 / tokensPerS) * (1 + VARIATION * (2 * random() - 1));
  let index = 0;
  let stopped = false;
  let dueMs = nowMs() + intervalMs();
  let cancelTimer = () => {};
  const wait = () => {
    cancelTimer = schedule(Math.max(0, dueMs - nowMs()), tick);
  };
  const tick = () => {
    do {
      if (index === tokens.length) {
        onDone();
        return;
      }
      onToken(tokens[index], index++);
      dueMs += intervalMs();
    } while (!stopped && dueMs <= nowMs()); // all that are due: a background tab has one timer per second
    if (!stopped) wait();
  };
  wait();
  return {
    stop() {
      stopped = true;
      cancelTimer();
    },
  };
}
