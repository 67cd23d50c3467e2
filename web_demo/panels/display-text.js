// Everything the page says in words: errors, voices, numbers.  Pure functions.

const BY_CODE = {
  overloaded: "The server is busy right now. Please try again in a moment.",
  unknown_voice: "The server does not have this voice any more. Please choose another one.",
  text_too_long: "This text is too long for one go. Please shorten it.",
  nothing_to_speak: "There is nothing to speak in this text: it has no words.",
  synthesis_failed: "The voice stumbled over a sentence. You can simply try again.",
  synthesis_truncated: "A sentence came out too long and was cut off.",
  engine_unavailable: "The voice is not ready on the server. Please try again in a moment.",
  slow_client: "This connection could not keep up with the audio, so the server ended it.",
  session_expired: "The connection was open for too long and has ended. Press Speak to open a new one.",
  server_stopping: "The server is restarting. Please try again in a moment.",
  unauthorized: "The server did not accept the key.",
  no_token: "The server gave no token for a connection. Please try again.",
  quota_exceeded: "This key has used up what it may speak for now. Please try again in a minute.",
  unsupported_format: "The server cannot speak in this format.",
  internal_error: "Something went wrong on the server. Please try again.",
  bad_server_message: "The server sent something this page does not understand.",
};

/** A server's `error` message in plain words; its own words where we have none. */
export function errorInWords({ code, message, retry_after_ms: waitMs }) {
  if (code === "overloaded" && waitMs > 0) {
    return `The server is full right now: one listener more would make somebody’s voice stutter. Please try again in ${Math.ceil(waitMs / 1000)} s.`;
  }
  return BY_CODE[code] ?? (message || "Something went wrong on the server.");
}

const BY_CLOSE_CODE = {
  1001: "The server is going away. Press Speak to connect again.",
  1008: "The server refused this connection.",
  1009: "This text is too long for one go. Please shorten it.",
  1011: BY_CODE.internal_error,
  1012: BY_CODE.server_stopping,
  1013: BY_CODE.overloaded,
};

/** Why a socket that had been open was lost. */
export function closeInWords({ code }) {
  return BY_CLOSE_CODE[code] ?? "The connection was lost. Press Speak to connect again.";
}

/** Why a socket did not open.  The browser hides the reason, so `readiness` is what `/readyz` said: a status, or null. */
export function unreachableInWords(readiness) {
  if (readiness === null) return "The server cannot be reached. Is it running?";
  if (readiness === 200) return "The server did not accept the connection. It may be full; please try again in a moment.";
  if (readiness === 503) return "The server is not ready yet: the voice is still loading. Please try again in a moment.";
  return `The server did not accept the connection (status ${readiness}).`;
}

const ACCENTS = { a: "American", b: "British" };
const GENDERS = { f: "female", m: "male" };

/** "af_heart" -> "Heart — American, female"; names in no known scheme are only tidied. */
export function voiceInWords(name) {
  const [, language, gender, rest] = /^([a-z])([fm])_(.+)$/.exec(name) ?? [];
  const title = (rest ?? name).replace(/[_-]+/g, " ").replace(/(^|\s)\S/g, (letter) => letter.toUpperCase());
  const traits = [ACCENTS[language], GENDERS[gender]].filter(Boolean);
  return traits.length > 0 ? `${title} — ${traits.join(", ")}` : title;
}

/** "en-US" -> "American English", in the reader's browser's words where it has them. */
export function languageInWords(tag) {
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
    const label = language ? languageInWords(language) : "Other";
    if (!groups.has(label)) groups.set(label, { label, voices: [] });
    groups.get(label).voices.push({ value: name, label: voiceInWords(name) });
  }
  return [...groups.values()];
}

export function ms(value) {
  return value === null || value === undefined ? "–" : `${Math.round(value)} ms`;
}

export function seconds(valueMs) {
  return `${(valueMs / 1000).toFixed(1)} s`;
}

/** The one line under the buttons. */
export function measuresInWords({ state, first_audible_ms, buffered_ms }) {
  if (first_audible_ms === null) return "";
  return `first sound ${ms(first_audible_ms)}` + (state === "idle" ? "" : ` · ${seconds(buffered_ms)} ready`);
}

/** "0 gaps · worst 12 ms": gaps that were heard; without one, how late the latest packet came. */
export function gapsInWords({ outcome, played_ms, underruns, worst_gap_ms, report }) {
  if (outcome === "failed" && played_ms === 0) return "Not spoken";
  const worst = underruns > 0 ? worst_gap_ms : report.max_underrun_s * 1000;
  return `${underruns === 1 ? "1 gap" : `${underruns} gaps`} · worst ${ms(worst)}`;
}

/** What is behind the verdict, in a sentence. */
export function verdictInWords({ played_ms, underruns, gap_total_ms, report, cushion_ms, text_starvation_ms = 0 }) {
  if (played_ms === 0) return "Nothing has been heard yet.";
  const text = text_starvation_ms > 0 ? ` ${seconds(text_starvation_ms)} were spent waiting for text, which is no gap.` : "";
  if (underruns > 0) return `The voice paused where it must not, ${ms(gap_total_ms)} in all.${text}`;
  const lateMs = report.max_underrun_s * 1000;
  if (lateMs >= 1) return `The latest packet came ${ms(lateMs)} late, and the cushion of ${ms(cushion_ms)} hid it.${text}`;
  return `Every packet came before it was needed.${text}`;
}

/** After a barge-in. */
export function cutInWords({ silent_after_ms, played_ms }, { by }) {
  const silence = silent_after_ms === null ? "Stopped" : `Silent ${ms(silent_after_ms)} after you stopped it`;
  const whose = by === "server" ? "as the server reckons" : "by this page’s own count";
  return `${silence}, after ${seconds(played_ms)} of speech. Grey is what you have not heard, ${whose}.`;
}

const FORMATS = { pcm: "PCM, 16 bit", opus: "Opus", pcm_mulaw: "Phone (µ-law, 8 kHz)" };

export function formatInWords(format) {
  return FORMATS[format] ?? format;
}

/** "PCM, 16 bit: 48.0 kB a second" */
export function bytesInWords({ format, bytes_per_s }) {
  return `${formatInWords(format)}: ${(bytes_per_s / 1000).toFixed(1)} kB a second`;
}

export function percent(share) {
  return share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`;
}

/** How the others fare. */
export function loadInWords({ asked, speaking, waiting, refused, retry_after_s }) {
  const many = (n) => (n === 1 ? "1 stream speaks" : `${n} streams speak`);
  if (refused === 0) return `${many(speaking)} of ${asked}; nobody was told to wait.`;
  const when = retry_after_s === null ? "" : `, the last for ${Math.ceil(retry_after_s)} s`;
  return `${many(speaking)}, ${waiting} wait. The server has said “not now” ${refused} times${when}: one more listener would have left somebody without sound.`;
}

const SCHEDULERS = { deadline: "Ours", policy_c: "Policy C", round_robin: "Round robin", bounded_window: "Bounded window", edf_only: "Earliest deadline only" };

export function schedulerInWords(name) {
  return SCHEDULERS[name] ?? name;
}

const LINKS = { closed: "Not connected", connecting: "Connecting…", open: "Connected", reconnecting: "Connection lost, trying again…" };

export function linkInWords(state) {
  return LINKS[state];
}

const NO_TIMES = "The server gives no word times for this voice, so whole sentences light up.";

/** Said under the text where words cannot light up one by one: what the server told of its sentences' timings. */
export function timingsInWords(timings) {
  return timings.some((status) => status === "unsupported" || status === "failed") ? NO_TIMES : null;
}
