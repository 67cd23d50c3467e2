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
  internal_error: "Something went wrong on the server. Please try again.",
  bad_server_message: "The server sent something this page does not understand.",
};

/** A server's `error` message in plain words; its own words where we have none. */
export function errorInWords({ code, message }) {
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
export function measuresInWords({ first_audible_ms, buffered_ms, underruns, worst_gap_ms }) {
  const sound = first_audible_ms === null ? "first sound –" : `first sound ${ms(first_audible_ms)}`;
  const gaps = underruns === 1 ? "1 gap" : `${underruns} gaps`;
  return `${sound} · buffer ${seconds(buffered_ms)} · ${gaps} (worst ${ms(worst_gap_ms)})`;
}
