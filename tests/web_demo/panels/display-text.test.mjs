// Text for numbers, voices and states.

import assert from "node:assert/strict";
import { test } from "node:test";

import * as text from "../../../web_demo/panels/display-text.js";

test("voices have readable names, grouped by language in the server's order", () => {
  assert.equal(text.voiceLabel("af_heart"), "Heart — American, female");
  assert.equal(text.voiceLabel("bm_lewis"), "Lewis — British, male");
  assert.equal(text.voiceLabel("jf_alpha"), "Alpha — female");
  assert.equal(text.voiceLabel("my-own_voice"), "My Own Voice");
  const groups = text.groupVoices([{ name: "af_heart", language: "en-US" }, { name: "x", language: "" }, { name: "am_adam", language: "en-US" }]);
  assert.deepEqual(groups.map(({ label, voices }) => [label, voices.length]), [["American English", 2], ["Other", 1]]);
});

test("the verdict states the gaps or, without one, the delay of the latest packet", () => {
  const gapless = { underruns: 0, worst_gap_ms: 0, gap_total_ms: 0, played_ms: 900, buffer_target_ms: 60, report: { max_underrun_s: 0.0123 } };
  assert.equal(text.gapsText(gapless), "0 gaps · worst 12 ms");
  assert.match(text.verdictText(gapless), /was 12 ms late; the buffer of 60 ms covered it/);
  const interrupted = { ...gapless, underruns: 1, worst_gap_ms: 80.4, gap_total_ms: 80.4, text_starvation_ms: 1500 };
  assert.equal(text.gapsText(interrupted), "1 gap · worst 80 ms");
  assert.match(text.verdictText(interrupted), /80 ms in total\. 1\.5 s were waits for text, which are not gaps/);
  assert.match(text.verdictText({ ...gapless, played_ms: 0 }), /No audio has been played/);
  assert.equal(text.gapsText({ ...gapless, played_ms: 0, outcome: "failed" }), "Not spoken"); // not "0 gaps"
});

test("an unknown value is a dash, not a zero", () => {
  assert.equal(text.ms(null), "–");
  assert.equal(text.ms(undefined), "–");
  assert.equal(text.percent(null), "–");
  assert.equal(text.playbackText({ first_audible_ms: null, buffered_ms: 0 }), "");
});

test("the note about word times is shown only if the server has none", () => {
  assert.equal(text.timingsText(["ok", null]), null);
  assert.match(text.timingsText(["ok", "unsupported"]), /whole sentences/);
});
