// Types a text as a language model would write it: in pieces of words, unevenly, at so many a second.

import { afterMs } from "../protocol/client.js";
import { seeded } from "./seeded-random.js";

const LONGEST_WHOLE = 6; // letters that mostly stay one token; longer words are cut
const UNEVENNESS = 0.6; // a token takes 0.4 to 1.6 times its share

/** The pieces, the same for the same seed; joined they are the text.  A word takes the space before it along. */
export function tokensOf(text, seed = 1) {
  const random = seeded(seed);
  return (text.match(/\s*\S+|\s+$/gu) ?? []).flatMap((word) => piecesOf(word, random));
}

function piecesOf(word, random) {
  const letters = [...word]; // by code points: no surrogate pair is torn
  const pieces = [];
  for (let at = 0; at < letters.length; ) {
    const left = letters.length - at;
    const size = left <= LONGEST_WHOLE ? left : 3 + Math.floor(random() * (LONGEST_WHOLE - 2));
    pieces.push(letters.slice(at, at + size).join(""));
    at += size;
  }
  return pieces;
}

/**
 * Calls `onToken(piece, index)` for each piece and `onDone()` at the end, unless `stop()` was called before.
 * `schedule(ms, callback)` returns what calls it off.
 */
export function typeTokens(
  text,
  { tokensPerS, seed = 1, onToken, onDone = () => {}, schedule = afterMs, nowMs = () => performance.now() },
) {
  if (!(tokensPerS > 0)) throw new RangeError(`there must be more than 0 tokens a second, got ${tokensPerS}`);
  const tokens = tokensOf(text, seed);
  const random = seeded(seed + 1);
  const pauseMs = () => (1000 / tokensPerS) * (1 + UNEVENNESS * (2 * random() - 1));
  let index = 0;
  let stopped = false;
  let dueMs = nowMs() + pauseMs();
  let callOff = () => {};
  const wait = () => {
    callOff = schedule(Math.max(0, dueMs - nowMs()), tick);
  };
  const tick = () => {
    do {
      if (index === tokens.length) {
        onDone();
        return;
      }
      onToken(tokens[index], index++);
      dueMs += pauseMs();
    } while (!stopped && dueMs <= nowMs()); // all that is due: a page in the background has one timer a second
    if (!stopped) wait();
  };
  wait();
  return {
    stop() {
      stopped = true;
      callOff();
    },
  };
}
