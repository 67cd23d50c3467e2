// Draws the way from the press to the first sound: a bar for each stage, one after the other.

import { element, make, note } from "./dom.js";
import { ms } from "./display-text.js";

const STAGES = {
  connected: ["connect", "here"],
  first_token_sent: ["first token sent", "here"],
  sentence_closed: ["sentence closed", "server"],
  work_begun: ["queued", "server"],
  first_packet: ["first packet", "server"],
  first_audible: ["first audible sample", "here"],
};

/** `rows`: LatencyMarks' rows. */
export function showWaterfall(rows, outputLatencyMs) {
  const totalMs = rows.at(-1)?.at_ms ?? 0;
  element("waterfall").replaceChildren(...rows.filter(({ name }) => name in STAGES).map((row) => stage(row, totalMs)));
  if (totalMs === 0) return;
  const audible = rows.at(-1).name === "first_audible";
  note(
    element("latency-note"),
    audible
      ? `First sound after ${ms(totalMs)}, of which the sound card takes ${ms(outputLatencyMs)}. The server tells durations, not times: its bars end at the first packet as it came here.`
      : "…",
  );
}

function stage({ name, at_ms, took_ms }, totalMs) {
  const [words, by] = STAGES[name];
  const bar = make("i", { className: `bar ${by}` });
  const percent = (part) => `${(100 * part) / Math.max(1, totalMs)}%`;
  bar.style.marginInlineStart = percent(at_ms - took_ms);
  bar.style.width = percent(took_ms);
  const track = make("span", { className: "track", ariaHidden: "true" }, bar);
  return make("li", {}, make("span", { className: "name", textContent: words }), track, make("b", { textContent: ms(took_ms) }));
}
