// Data of the buffer chart.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BufferHistory } from "../../../web_demo/utterance/buffer-history.js";

const SNAPSHOT = { buffered_ms: 0, buffer_target_ms: 60, gap_open_ms: 0, text_wait_ms: 0, underruns: 0, text_starvation_ms: 0 };

test("waits join adjacent samples of one kind", () => {
  const history = new BufferHistory();
  assert.equal(history.extentS, null);
  const kinds = [null, "gap", "gap", null, "text", null, "gap"];
  kinds.forEach((kind, i) => {
    const waits = { gap_open_ms: kind === "gap" ? 1 : 0, text_wait_ms: kind === "text" ? 1 : 0 };
    history.addSnapshot({ ...SNAPSHOT, ...waits, buffered_ms: 100 * i }, i);
  });
  history.addPacket(9);
  assert.deepEqual(history.waits("gap"), [[0, 2], [5, 6]]);
  assert.deepEqual(history.waits("text"), [[3, 4]]);
  assert.deepEqual(history.extentS, [0, 9]);
  assert.equal(history.maxDepthS(0), 0.6);
});

test("the kind of a wait is corrected at its end", () => {
  const history = new BufferHistory();
  history.addSnapshot(SNAPSHOT, 0);
  history.addSnapshot({ ...SNAPSHOT, text_wait_ms: 50 }, 1); // first taken as a wait for text …
  history.addSnapshot({ ...SNAPSHOT, gap_open_ms: 100 }, 2);
  history.addSnapshot({ ...SNAPSHOT, underruns: 1 }, 3); // … but the audio was late
  assert.deepEqual([history.waits("gap"), history.waits("text")], [[[0, 2]], []]);
  history.addSnapshot({ ...SNAPSHOT, underruns: 1, gap_open_ms: 100 }, 4);
  history.addSnapshot({ ...SNAPSHOT, underruns: 1, text_starvation_ms: 100 }, 5);
  assert.deepEqual([history.waits("gap"), history.waits("text")], [[[0, 2]], [[3, 4]]]);
  history.clear();
  history.addSnapshot({ ...SNAPSHOT, gap_open_ms: 100 }, 6);
  assert.deepEqual(history.waits("gap"), [[6, 6]]);
  history.addSnapshot({ ...SNAPSHOT, text_starvation_ms: 100 }, 7); // one more
  assert.deepEqual(history.waits("text"), [[6, 6]]);
});
