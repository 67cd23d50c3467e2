// What one utterance was like, as a plain JSON object to save or to compare.

const HEARD = ["played_ms", "underruns", "gap_total_ms", "gap_worst_ms", "text_starvation_ms", "cushion_ms"];
const VERSION = 1; // goes up when a field changes its meaning

/**
 * `packets` is [{at_ms, bytes, duration_ms}] since the press; `marks` the rows of LatencyMarks; `client` the ledger's
 * report and `heard` the player's stats; `server` the `continuity` of `session.done`.  What is not known is null.
 */
export function sessionReport({
  config,
  text,
  server = null,
  client = null,
  heard = null,
  marks = [],
  packets = [],
  sentences = [],
  words = [],
  cancelled = null,
  serverInfo = null,
  userAgent = null,
}) {
  return {
    version: VERSION,
    config: { ...config },
    text,
    server: serverInfo && picked(serverInfo, ["model", "session_id", "sample_rate"]),
    browser: userAgent,
    continuity: { client, server, heard: heard && picked(heard, HEARD) },
    latency: marks.map(({ name, at_ms, took_ms }) => ({ name, at_ms: rounded(at_ms), took_ms: rounded(took_ms) })),
    packets: packets.map(({ at_ms, bytes, duration_ms }) => [rounded(at_ms), bytes, rounded(duration_ms)]),
    sentences: sentences.map((each) => ({ error: false, metrics: null, ...picked(each, ["index", "text", "error", "metrics"]) })),
    words: words.map((each) => picked(each, ["word", "start_ms", "end_ms"])),
    cancelled: cancelled && picked(cancelled, ["text_spoken", "text_remaining", "audio_played_ms", "source"]),
  };
}

function picked(object, names) {
  return Object.fromEntries(names.filter((name) => object[name] !== undefined).map((name) => [name, object[name]]));
}

function rounded(ms) {
  return Math.round(ms * 10) / 10;
}
