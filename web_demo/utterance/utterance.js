// Everything that is known about one "say this": what was asked, what came, when, and what was heard.  No DOM, no I/O.

import { LatencyMarks } from "./latency-marks.js";
import { PlayoutLedger } from "../audio/playout.js";
import { sessionReport } from "./report.js";
import { SentenceTimeline } from "./sentence-timeline.js";

const OPUS_PACKET_S = 0.02;
const BYTES_A_SAMPLE = { pcm: 2, pcm_mulaw: 1, pcm_alaw: 1 };

export const NOTHING_HEARD = Object.freeze({
  state: "filling",
  played_samples: 0,
  played_ms: 0,
  buffered_ms: 0,
  underruns: 0,
  gap_worst_ms: 0,
  gap_total_ms: 0,
  gap_open_ms: 0,
  text_starvation_ms: 0,
  cushion_ms: 0,
  rms: 0,
});

export class Run {
  ledger = new PlayoutLedger();
  timeline = new SentenceTimeline();
  text = "";
  textLength = 0; // in code points
  sent = []; // {length, at_s}: how much of the text had been sent when
  inputDoneS = null;
  utterance = null; // the player's number for it, once something is to be played
  sampleRateHz = null; // of what is played
  stats = NOTHING_HEARD;
  connectedMs = null;
  firstText = null; // the message
  firstTextMs = null;
  firstPacketMs = null;
  firstAudibleMs = null;
  outputLatencyMs = 0;
  packets = []; // {at_ms, bytes, duration_ms}, since the press
  bytes = 0;
  starts = []; // audio.start messages, in order
  sentences = []; // {start, done}: those that have ended, with the server's metrics
  #sentence = { start: null, heldBack: null, secondsS: 0 }; // the one whose packets are coming
  decoded = 0; // sentences that the decoder has let go of
  stoppedAtMs = null;
  silentAfterMs = null;
  words = []; // every word's timing, as the server told it
  heardSamples = null; // where the playhead stood at the stop
  cut = null; // the server's audio.cancelled, with after_ms
  serverReport = null;
  usage = null;
  complete = false;
  problem = null;
  retryAfterMs = null; // where the server was full
  warning = null;
  outcome = null; // spoken, stopped, failed

  constructor({ contextId, config, askedAtMs }) {
    this.contextId = contextId;
    this.config = config;
    this.askedAtMs = askedAtMs;
  }

  /** Note that `text` is sent now. */
  write(text, atS) {
    this.text += text;
    this.textLength += Array.from(text).length;
    this.sent.push({ length: this.textLength, at_s: atS });
  }

  /** Note a packet; returns whether its sentence came late as text, so that the wait for it was nobody's fault. */
  receive({ bytes, start, arrived_at_s }) {
    const isFirst = this.#sentence.start !== start;
    if (isFirst) this.#sentence = { start, heldBack: null, secondsS: 0 };
    const starved = isFirst && this.#cameLateAsText(start);
    this.#record();
    this.#sentence.heldBack = { arrived_at_s, duration_s: packetS({ bytes, start, isFirst }), text_starved: starved, bytes: bytes.byteLength };
    this.bytes += bytes.byteLength;
    // The last packet of Opus is filled up with silence: how much of it is speech is told by the sentence's end.
    if (start.format !== "opus") this.#record();
    return starved;
  }

  /** A sentence has all its packets. */
  finish(start, done) {
    this.sentences.push({ start, done });
    if (this.#sentence.start !== start) return;
    const leftS = done.reason === "complete" ? done.samples / start.sample_rate - this.#sentence.secondsS : Infinity;
    this.#record(leftS);
  }

  #record(mostS = Infinity) {
    const packet = this.#sentence.heldBack;
    if (packet === null) return;
    const durationS = Math.max(0, Math.min(packet.duration_s, mostS));
    this.#sentence.heldBack = null;
    this.#sentence.secondsS += durationS;
    this.ledger.record({ ...packet, duration_s: durationS });
    this.packets.push({
      at_ms: packet.arrived_at_s * 1000 - this.askedAtMs,
      bytes: packet.bytes,
      duration_ms: durationS * 1000,
    });
  }

  /** Whether what is missing now is text, and not sound: all that was begun has been spoken, and more may be typed. */
  get awaitsText() {
    if (this.inputDoneS === null && this.sentences.length === this.starts.length) return true;
    const last = this.starts.at(-1);
    return last !== undefined && last !== this.#sentence.start && this.#cameLateAsText(last);
  }

  /** Whether the listener had heard everything before this sentence's text was complete. */
  #cameLateAsText({ text_span: span }) {
    const endS = this.ledger.playout_end_s;
    if (endS === null) return false;
    // A sentence is known to have ended by what follows it, or by the end of the text.
    const closedS = this.sent.find(({ length }) => length > span[1])?.at_s ?? this.inputDoneS ?? this.sent.at(-1)?.at_s;
    return closedS !== undefined && closedS > endS;
  }

  /** Text that was heard and text that was not, by the server's word where it has come. */
  get heard() {
    if (this.cut !== null) return { heard: this.cut.text_spoken, unheard: this.cut.text_remaining, by: "server" };
    const characters = Array.from(this.text);
    const upTo = this.timeline.heardUpTo(this.heardSamples ?? this.stats.played_samples);
    return { heard: characters.slice(0, upTo).join(""), unheard: characters.slice(upTo).join(""), by: "page" };
  }

  get audioS() {
    return this.sampleRateHz === null ? 0 : this.timeline.samples / this.sampleRateHz;
  }

  /** What a second of its sound takes on the wire. */
  get bytesPerS() {
    const { audio_s } = this.ledger.report();
    return audio_s > 0 ? this.bytes / audio_s : null;
  }

  /** The way from the press to the first sound. */
  get latency() {
    const marks = new LatencyMarks();
    const times = {
      asked: this.askedAtMs,
      connected: this.connectedMs,
      first_token_sent: this.firstTextMs,
      first_packet: this.firstPacketMs,
      first_audible: this.firstAudibleMs,
    };
    for (const [name, atMs] of Object.entries(times)) if (atMs !== null) marks.mark(name, atMs);
    const told = this.sentences[0]?.done.metrics;
    if (told) marks.fromServer(told);
    return marks.rows();
  }

  /** All of it as JSON. */
  report({ serverInfo, userAgent }) {
    return sessionReport({
      config: this.config,
      text: this.text,
      server: this.serverReport,
      client: this.ledger.report(),
      heard: this.stats,
      marks: this.latency,
      packets: this.packets,
      sentences: this.sentences.map(({ start, done }) => ({
        index: start.sentence_index,
        text: done.sentence_text ?? start.sentence_text,
        error: done.error,
        metrics: done.metrics ?? null,
      })),
      words: this.words,
      cancelled: this.cut,
      serverInfo,
      userAgent,
    });
  }

  get snapshot() {
    const { stats } = this;
    const since = (ms) => (ms === null ? null : ms - this.askedAtMs);
    return {
      buffered_ms: stats.buffered_ms,
      played_ms: stats.played_ms,
      cushion_ms: stats.cushion_ms,
      underruns: stats.underruns,
      worst_gap_ms: stats.gap_worst_ms,
      gap_total_ms: stats.gap_total_ms,
      text_starvation_ms: stats.text_starvation_ms,
      gap_open_ms: this.awaitsText ? 0 : stats.gap_open_ms,
      text_wait_ms: this.awaitsText ? stats.gap_open_ms : 0,
      awaits_text: this.awaitsText,
      rms: stats.rms,
      format: this.config?.response_format ?? null,
      bytes: this.bytes,
      bytes_per_s: this.bytesPerS,
      first_packet_ms: since(this.firstPacketMs),
      ttfp_ms: this.firstPacketMs === null ? null : this.firstPacketMs - this.firstTextMs, // counted as the server does
      first_audible_ms: since(this.firstAudibleMs),
      silent_after_ms: this.silentAfterMs,
      cancelled_after_ms: this.cut?.after_ms ?? null,
      report: this.ledger.report(),
      server_report: this.serverReport,
      problem: this.problem,
      warning: this.warning,
      outcome: this.outcome,
    };
  }
}

/** Seconds of sound in one packet. */
function packetS({ bytes, start, isFirst }) {
  if (start.format === "opus") return OPUS_PACKET_S - (isFirst ? (start.pre_skip ?? 0) / start.sample_rate : 0);
  return bytes.byteLength / BYTES_A_SAMPLE[start.format] / start.sample_rate;
}
