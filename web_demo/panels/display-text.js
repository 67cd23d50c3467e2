// Text shown for numbers, voices, models and states.  Pure functions.

const ACCENTS = { a: "American", b: "British" };
const GENDERS = { f: "female", m: "male" };

/** "af_heart" -> "Heart — American, female"; other names are only capitalised. */
export function voiceLabel(name) {
  const [, language, gender, rest] = /^([a-z])([fm])_(.+)$/.exec(name) ?? [];
  const title = (rest ?? name).replace(/[_-]+/g, " ").replace(/(^|\s)\S/g, (letter) => letter.toUpperCase());
  const traits = [ACCENTS[language], GENDERS[gender]].filter(Boolean);
  return traits.length > 0 ? `${title} — ${traits.join(", ")}` : title;
}

/** "en-US" -> "American English" */
export function languageLabel(tag) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag) ?? tag;
  } catch {
    return tag;
  }
}

/** [{label, voices: [{value, label}]}], languages and voices in the server's order. */
export function groupVoices(voices) {
  const groups = new Map();
  for (const { name, language } of voices) {
    const label = language ? languageLabel(language) : "Other";
    if (!groups.has(label)) groups.set(label, { label, voices: [] });
    groups.get(label).voices.push({ value: name, label: voiceLabel(name) });
  }
  return [...groups.values()];
}

export function ms(value) {
  return value === null || value === undefined ? "–" : `${Math.round(value)} ms`;
}

export function seconds(valueMs) {
  return `${(valueMs / 1000).toFixed(1)} s`;
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`;
}

/** "first audio 210 ms · 1.2 s buffered" */
export function playbackText({ state, first_audible_ms, buffered_ms }) {
  if (first_audible_ms === null) return "";
  return `first audio ${ms(first_audible_ms)}` + (state === "idle" ? "" : ` · ${seconds(buffered_ms)} buffered`);
}

/** "0 gaps · worst 12 ms": the audible gaps or, without one, the delay of the latest packet. */
export function gapsText({ outcome, played_ms, underruns, worst_gap_ms, report }) {
  if (outcome === "failed" && played_ms === 0) return "Not spoken";
  const worst = underruns > 0 ? worst_gap_ms : report.max_underrun_s * 1000;
  return `${underruns === 1 ? "1 gap" : `${underruns} gaps`} · worst ${ms(worst)}`;
}

/** The explanation of `gapsText`. */
export function verdictText({ played_ms, underruns, gap_total_ms, report, buffer_target_ms, text_starvation_ms = 0 }) {
  if (played_ms === 0) return "No audio has been played yet.";
  const text = text_starvation_ms > 0 ? ` ${seconds(text_starvation_ms)} were waits for text, which are not gaps.` : "";
  if (underruns > 0) return `Playback waited for late audio, ${ms(gap_total_ms)} in total.${text}`;
  const lateMs = report.max_underrun_s * 1000;
  if (lateMs >= 1) return `The latest packet was ${ms(lateMs)} late; the buffer of ${ms(buffer_target_ms)} covered it.${text}`;
  return `Every packet arrived in time.${text}`;
}

/** After a barge-in. */
export function stopText({ silent_after_ms, played_ms }, { source }) {
  const silence = silent_after_ms === null ? "Stopped" : `Silent ${ms(silent_after_ms)} after the stop`;
  return `${silence}, after ${seconds(played_ms)} of speech. Grey text was not played, as reported by the ${source}.`;
}

const FORMATS = { pcm: "PCM, 16 bit", opus: "Opus", pcm_mulaw: "Phone (µ-law, 8 kHz)" };

export function formatLabel(format) {
  return FORMATS[format] ?? format;
}

/** "PCM, 16 bit: 48.0 kB/s" */
export function bitrateText({ format, bytes_per_s }) {
  return `${formatLabel(format)}: ${(bytes_per_s / 1000).toFixed(1)} kB/s`;
}

/** Summary of BackgroundLoad's figures. */
export function loadText({ asked, speaking, waiting, refused, retry_after_s }) {
  const active = `${speaking} of ${asked} listeners ${speaking === 1 ? "is" : "are"} active`;
  if (refused === 0) return `${active}; no request was refused.`;
  const retry = retry_after_s === null ? "" : ` (last retry after ${Math.ceil(retry_after_s)} s)`;
  return `${active}, ${waiting} waiting. The server refused ${refused} requests${retry}: one more listener would have caused gaps.`;
}

const CONNECTIONS = {
  closed: "Not connected",
  connecting: "Connecting…",
  open: "Connected",
  reconnecting: "Connection lost, reconnecting…",
};

export function connectionText(state) {
  return CONNECTIONS[state];
}

/** Shown under the text if the server has no word times for a sentence. */
export function timingsText(timings) {
  const isMissing = timings.some((status) => status === "unsupported" || status === "failed");
  return isMissing ? "The server has no word times for this voice, so whole sentences are highlighted." : null;
}
