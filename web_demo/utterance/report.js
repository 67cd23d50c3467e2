// Report of one utterance as a plain JSON object, for saving and comparison.

const PLAYBACK_FIELDS = ["played_ms", "underruns", "gap_total_ms", "gap_worst_ms", "text_starvation_ms", "buffer_target_ms"];
const VERSION = 2; // increases when a field changes its name or meaning

/** Unknown values are null.  `serverInfo` is the `session.created` message. */
export function utteranceReport(utterance, { serverInfo = null, userAgent = null } = {}) {
  const { config, text, serverReport, ledger, stats, latency, packets, sentences, words, cancelled } = utterance;
  return {
    version: VERSION,
    config: { ...config },
    text,
    server: pick(serverInfo, ["model", "session_id", "sample_rate"]),
    browser: userAgent,
    continuity: { client: ledger.report(), server: serverReport, playback: pick(stats, PLAYBACK_FIELDS) },
    latency: latency.map(({ name, at_ms, took_ms }) => ({ name, at_ms: rounded(at_ms), took_ms: rounded(took_ms) })),
    packets: packets.map(({ at_ms, bytes, duration_ms }) => [rounded(at_ms), bytes, rounded(duration_ms)]),
    sentences: sentences.map(({ start, done }) => ({
      index: start.sentence_index,
      text: done.sentence_text ?? start.sentence_text,
      error: done.error,
      metrics: done.metrics ?? null,
    })),
    words: words.map((each) => pick(each, ["word", "start_ms", "end_ms"])),
    cancelled: pick(cancelled, ["text_spoken", "text_remaining", "audio_played_ms", "source"]),
  };
}

function pick(object, names) {
  return object && Object.fromEntries(names.map((name) => [name, object[name]]));
}

function rounded(ms) {
  return Math.round(ms * 10) / 10;
}
