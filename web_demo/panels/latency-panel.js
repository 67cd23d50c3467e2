// Latency panel: one bar per step from the Speak button to the first audible sample.

import { ms } from "./display-text.js";
import { element, make, note } from "./dom.js";

const STEPS = {
  connected: ["connect", "here"],
  first_token_sent: ["first token sent", "here"],
  sentence_closed: ["sentence complete", "server"],
  work_begun: ["queued", "server"],
  first_packet: ["first packet", "server"],
  first_audible: ["first audible sample", "here"],
};

/** `rows`: LatencyMarks' rows. */
export function showLatency(rows, outputLatencyMs) {
  const totalMs = rows.at(-1)?.at_ms ?? 0;
  element("latency").replaceChildren(...rows.filter(({ name }) => name in STEPS).map((row) => step(row, totalMs)));
  if (totalMs === 0) return;
  const audible = rows.at(-1).name === "first_audible";
  note(
    element("latency-note"),
    audible
      ? `First audio after ${ms(totalMs)}, including ${ms(outputLatencyMs)} in the audio device. The server reports durations, so its bars end at the arrival of the first packet.`
      : "…",
  );
}

function step({ name, at_ms, took_ms }, totalMs) {
  const [label, measuredBy] = STEPS[name];
  const bar = make("i", { className: `bar ${measuredBy}` });
  const percent = (part) => `${(100 * part) / Math.max(1, totalMs)}%`;
  bar.style.marginInlineStart = percent(at_ms - took_ms);
  bar.style.width = percent(took_ms);
  const line = make("span", { className: "line", ariaHidden: "true" }, bar);
  return make("li", {}, make("span", { className: "name", textContent: label }), line, make("b", { textContent: ms(took_ms) }));
}
