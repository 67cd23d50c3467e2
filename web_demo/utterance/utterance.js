// State of one utterance: what was requested, received and played, with times.  No DOM, no I/O.

import { PlayoutLedger } from "../audio/playout.js";
import { LatencyMarks } from "./latency-marks.js";
import { SentenceTimeline } from "./sentence-timeline.js";

const OPUS_PACKET_S = 0.02;
const BYTES_PER_SAMPLE = { pcm: 2, pcm_mulaw: 1, pcm_alaw: 1 };

export const INITIAL_STATS = Object.freeze({
  state: "filling",
  played_samples: 0,
  played_ms: 0,
  buffered_ms: 0,
  underruns: 0,
  gap_worst_ms: 0,
  gap_total_ms: 0,
  gap_open_ms: 0,
  text_starvation_ms: 0,
  buffer_target_ms: 0,
  rms: 0,
});

export class Utterance {
  ledger = new PlayoutLedger();
  timeline = new SentenceTimeline();
  text = "";
  textLength = 0; // in code points
  sent = []; // {length, at_s}: the length of the sent text over time
  inputDoneS = null;
  playbackId = null; // the player's, from the first audio on
  sampleRateHz = null; // of the decoded audio
  stats = INITIAL_STATS;
  connectedMs = null;
  firstText = null; // the message
  firstTextMs = null;
  firstPacketMs = null;
  firstAudibleMs = null;
  outputLatencyMs = 0;
  packets = []; // {at_ms, bytes, duration_ms}, since the request
  bytes = 0;
  audioStarts = []; // audio.start messages, in order
  sentences = []; // {start, done}: the finished ones, with the server's metrics
  #receiving = { start: null, lastPacket: null, recordedS: 0 }; // the sentence whose packets are arriving
  decoded = 0; // sentences
  stoppedAtMs = null;
  silentAfterMs = null;
  words = []; // word times, as received
  stoppedAtSample = null; // the playback position at the stop
  cancelled = null; // the server's audio.cancelled, with after_ms
  serverReport = null;
  complete = false;
  problem = null;
  retryAfterMs = null; // set if the server was full
  warning = null;
  outcome = null; // spoken, stopped, failed

  constructor({ contextId, config, askedAtMs }) {
    this.contextId = contextId;
    this.config = config;
    this.askedAtMs = askedAtMs;
  }

  /** Record that `text` is sent now. */
  addText(text, atS) {
    this.text += text;
    this.textLength += Array.from(text).length;
    this.sent.push({ length: this.textLength, at_s: atS });
  }

  /** Record a packet; returns whether the wait for its sentence was a wait for text. */
  addPacket({ bytes, start, arrived_at_s }) {
    const isFirst = this.#receiving.start !== start;
    if (isFirst) this.#receiving = { start, lastPacket: null, recordedS: 0 };
    const text_starved = isFirst && this.#textWasLate(start);
    this.#recordLastPacket();
    const duration_s = packetDurationS({ bytes, start, isFirst });
    this.#receiving.lastPacket = { arrived_at_s, duration_s, text_starved, bytes: bytes.byteLength };
    this.bytes += bytes.byteLength;
    // The last Opus packet of a sentence is padded; audio.done gives the number of samples in it.
    if (start.format !== "opus") this.#recordLastPacket();
    return text_starved;
  }

  /** Record the end of a sentence. */
  finishSentence(start, done) {
    this.sentences.push({ start, done });
    if (this.#receiving.start !== start) return;
    const isComplete = done.reason === "complete";
    this.#recordLastPacket(isComplete ? done.samples / start.sample_rate - this.#receiving.recordedS : Infinity);
  }

  #recordLastPacket(maxS = Infinity) {
    const packet = this.#receiving.lastPacket;
    if (packet === null) return;
    const durationS = Math.max(0, Math.min(packet.duration_s, maxS));
    this.#receiving.lastPacket = null;
    this.#receiving.recordedS += durationS;
    this.ledger.record({ ...packet, duration_s: durationS });
    this.packets.push({
      at_ms: packet.arrived_at_s * 1000 - this.askedAtMs,
      bytes: packet.bytes,
      duration_ms: durationS * 1000,
    });
  }

  /** Whether the present wait is for text: all sentences were received, and more text may follow. */
  get awaitsText() {
    if (this.inputDoneS === null && this.sentences.length === this.audioStarts.length) return true;
    const last = this.audioStarts.at(-1);
    return last !== undefined && last !== this.#receiving.start && this.#textWasLate(last);
  }

  /** Whether the earlier audio had ended before this sentence's text was complete. */
  #textWasLate({ text_span: span }) {
    const endS = this.ledger.playout_end_s;
    if (endS === null) return false;
    // The end of a sentence is known from the text after it, or from the end of the text.
    const closedS = this.sent.find(({ length }) => length > span[1])?.at_s ?? this.inputDoneS ?? this.sent.at(-1)?.at_s;
    return closedS !== undefined && closedS > endS;
  }

  /** The text split at the playback position; `source` is "server" once audio.cancelled has arrived. */
  get textSplit() {
    if (this.cancelled !== null) {
      return { played: this.cancelled.text_spoken, remaining: this.cancelled.text_remaining, source: "server" };
    }
    const characters = Array.from(this.text);
    const upTo = this.timeline.playedText(this.stoppedAtSample ?? this.stats.played_samples);
    return { played: characters.slice(0, upTo).join(""), remaining: characters.slice(upTo).join(""), source: "page" };
  }

  get audioS() {
    return this.sampleRateHz === null ? 0 : this.timeline.samples / this.sampleRateHz;
  }

  /** Received bytes per second of audio. */
  get bytesPerS() {
    const { audio_s } = this.ledger.report();
    return audio_s > 0 ? this.bytes / audio_s : null;
  }

  /** LatencyMarks' rows. */
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
    const metrics = this.sentences[0]?.done.metrics;
    if (metrics) marks.fromServer(metrics);
    return marks.rows();
  }

  get snapshot() {
    const { stats } = this;
    const since = (ms) => (ms === null ? null : ms - this.askedAtMs);
    return {
      buffered_ms: stats.buffered_ms,
      played_ms: stats.played_ms,
      buffer_target_ms: stats.buffer_target_ms,
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
      ttfp_ms: this.firstPacketMs === null ? null : this.firstPacketMs - this.firstTextMs, // as the server measures it
      first_audible_ms: since(this.firstAudibleMs),
      silent_after_ms: this.silentAfterMs,
      cancelled_after_ms: this.cancelled?.after_ms ?? null,
      report: this.ledger.report(),
      server_report: this.serverReport,
      problem: this.problem,
      warning: this.warning,
      outcome: this.outcome,
    };
  }
}

function packetDurationS({ bytes, start, isFirst }) {
  if (start.format === "opus") return OPUS_PACKET_S - (isFirst ? (start.pre_skip ?? 0) / start.sample_rate : 0);
  return bytes.byteLength / BYTES_PER_SAMPLE[start.format] / start.sample_rate;
}
