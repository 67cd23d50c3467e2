// Controller of utterances: passes each one through client, decoder, player and ledger.
//
// No DOM.  `snapshot` is the whole state that the page shows and that tests read.

import { FormatError, SpeechDecoder, decodedRateHz } from "../audio/decoder.js";
import { closeMessage, errorMessage, unreachableMessage } from "./error-messages.js";
import { INITIAL_STATS, Utterance } from "./utterance.js";

const AUDIO_CHECK_MS = 1500; // an audio device that is not running by then was blocked, or is missing
const CLOCKS_SETTLE_S = 0.5; // a device that has just opened reports its latency better a moment later
const REPORT_EVERY_MS = 1000; // playback.report
const IDLE = Object.freeze(new Utterance({ contextId: null, config: null, askedAtMs: 0 }).snapshot);

let contextCount = 0; // of all controllers: their contexts appear in one message panel

export class UtteranceController {
  /** Called after every change with its kind: "state", "text", "sentence", "packet", "stats", "problem", "server",
   * "report", "cancelled", "link". */
  onchange = () => {};
  #client;
  #player;
  #probe;
  #decoder;
  #utterance = null;
  #state = "idle"; // idle, connecting, waiting (nothing to play yet), speaking, rebuffering
  #server = null; // the last `session.created`
  #reportedAtMs = 0;

  /** `probe()` resolves to the HTTP status of /readyz, or null if the server is unreachable. */
  constructor({ client, player, probe }) {
    this.#client = client;
    this.#player = player;
    this.#probe = probe;
    this.#decoder = new SpeechDecoder({
      onpcm: (samples, start) => this.#ifPresent(start, (utterance) => this.#onPcm(utterance, samples, start)),
      onend: (start, done) => this.#ifPresent(start, (utterance) => this.#onSentenceEnd(utterance, start, done)),
      onerror: (error) => this.#onDecoderError(error),
    });
    const ifPresent = (handle) => (message) =>
      this.#ifPresent(message, (utterance) => handle.call(this, utterance, message));
    client
      .on("open", () => this.#onOpen())
      .on("state", () => this.onchange("link"))
      .on("message", (message) => this.#onMessage(message))
      .on("sent", (sent) => this.#onSent(sent))
      .on("session.created", (message) => this.#onCreated(message))
      .on("audio.start", ifPresent(this.#onAudioStart))
      .on("audio.timestamps", ifPresent(this.#onTimestamps))
      .on("audio", (packet) => this.#ifPresent(packet.start, (utterance) => this.#onAudio(utterance, packet)))
      .on("audio.done", ifPresent(this.#onAudioDone))
      .on("audio.cancelled", ifPresent(this.#onCancelled))
      .on("session.done", ifPresent(this.#onSessionDone))
      .on("warning", (message) => this.#onWarning(message))
      .on("error", (message) => this.#onError(message))
      .on("closed", (event) => this.#onClosed(event));
  }

  get isBusy() {
    return this.#state !== "idle";
  }

  get state() {
    return this.#state;
  }

  get server() {
    return this.#server;
  }

  /** The present utterance, or the last one; null before the first. */
  get utterance() {
    return this.#utterance;
  }

  get client() {
    return this.#client;
  }

  /** The sample that is audible now. */
  get playedSamples() {
    const utterance = this.#utterance;
    if (utterance === null || utterance.playbackId === null) return 0;
    if (utterance.stoppedAtSample !== null) return utterance.stoppedAtSample;
    if (utterance.stats.state === "finished") return utterance.stats.played_samples;
    return Math.min(utterance.timeline.samples, this.#player.playedSamples());
  }

  get snapshot() {
    return { state: this.#state, ...(this.#utterance?.snapshot ?? IDLE) };
  }

  // -- Requests -------

  /** Speak `text`.  `askedAtMs` is the time of the click on performance.now()'s clock.  Call it in the click handler. */
  speak({ text, config, askedAtMs }) {
    this.begin({ config, askedAtMs });
    this.write(text);
    this.finish();
  }

  /** Begin an utterance: its text follows by `write`, its end by `finish`. */
  begin({ config, askedAtMs }) {
    if (this.isBusy) this.stop();
    if (this.#client.state === "reconnecting") this.#client.close(); // the user does not wait for the backoff
    this.#decoder.clear(); // a lost connection leaves an unfinished sentence
    contextCount += 1;
    const utterance = new Utterance({ contextId: `u${contextCount}`, config, askedAtMs });
    this.#utterance = utterance;
    if (this.#client.isOpen) utterance.connectedMs = askedAtMs;
    this.#setState(this.#client.isOpen ? "waiting" : "connecting");
    this.#player.prepare().catch(() => this.#onNoPlayer(utterance));
    this.#client.connect(config);
  }

  write(text) {
    if (!this.isBusy || text === "") return;
    this.#utterance.addText(text, nowS());
    this.#client.sendText(text, { contextId: this.#utterance.contextId });
    this.onchange("text");
  }

  finish() {
    if (!this.isBusy) return;
    this.#utterance.inputDoneS = nowS();
    this.#client.done({ contextId: this.#utterance.contextId });
  }

  /** Barge-in: fade out, and send the playback position to the server.  `atMs` is the time of the key press. */
  stop(atMs = performance.now()) {
    if (!this.isBusy) return;
    const utterance = this.#utterance;
    utterance.stoppedAtMs = atMs;
    utterance.stoppedAtSample = this.playedSamples;
    this.#player.stop();
    this.#decoder.clear();
    if (this.#client.isOpen && utterance.sent.length > 0) {
      const playedS = utterance.sampleRateHz === null ? 0 : utterance.stoppedAtSample / utterance.sampleRateHz;
      this.#client.cancel({ playbackOffsetMs: Math.round(playedS * 1000), contextId: utterance.contextId });
    } else {
      this.#client.close();
    }
    this.#end("stopped");
  }

  #onNoPlayer(utterance) {
    if (utterance !== this.#utterance || !this.isBusy) return;
    this.#client.close();
    utterance.playbackId = null; // nothing can be played
    this.#fail(utterance, "The browser did not start an AudioWorklet, so no audio can be played. The page needs https or localhost.");
  }

  // -- Messages -------

  /** Ignores messages of earlier utterances, which may arrive after a barge-in. */
  #ifPresent(message, handle) {
    const utterance = this.#utterance;
    if (utterance !== null && message?.context_id === utterance.contextId) handle(utterance);
  }

  #onOpen() {
    const utterance = this.#utterance;
    if (utterance === null || !this.isBusy) return;
    utterance.connectedMs = performance.now();
    this.#setState("waiting");
  }

  #onMessage({ direction, data }) {
    const utterance = this.#utterance;
    if (direction !== "out" || data.type !== "input.text" || data.context_id !== utterance?.contextId) return;
    utterance.firstText ??= data;
    utterance.firstTextMs ??= performance.now();
  }

  #onSent({ at_s, data }) {
    if (data === this.#utterance?.firstText) this.#utterance.firstTextMs = at_s * 1000;
  }

  #onCreated(message) {
    this.#server = message;
    this.onchange("server");
  }

  #onAudioStart(utterance, start) {
    utterance.audioStarts.push(start);
    try {
      this.#decoder.begin(start);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      this.#onDecoderError(error);
    }
  }

  #onTimestamps(utterance, { sentence_index, status, words }) {
    const start = utterance.audioStarts.find((each) => each.sentence_index === sentence_index);
    if (start === undefined) return;
    this.#addToTimeline(utterance, start);
    utterance.timeline.time(sentence_index, status, words, rateOf(start));
    utterance.words.push(...words);
    this.onchange("sentence");
  }

  #onAudio(utterance, { bytes, start, arrived_at_s }) {
    if (this.#state === "idle") return; // late audio after a stop
    if (utterance.firstPacketMs === null) {
      utterance.firstPacketMs = arrived_at_s * 1000;
      setTimeout(() => this.#checkAudio(utterance), AUDIO_CHECK_MS);
    }
    if (utterance.addPacket({ bytes, start, arrived_at_s })) this.#player.textStarved();
    this.#decoder.push(bytes);
    this.onchange("packet");
  }

  #onPcm(utterance, samples, start) {
    if (this.#state === "idle") return;
    const rateHz = rateOf(start);
    if (utterance.playbackId === null) {
      utterance.sampleRateHz = rateHz;
      utterance.playbackId = this.#player.begin(rateHz);
    } else if (utterance.sampleRateHz !== rateHz) {
      this.#onDecoderError(new Error(`the sample rate changed to ${rateHz} Hz`));
      return;
    }
    this.#addToTimeline(utterance, start);
    utterance.timeline.add(samples.length);
    this.#player.push(samples);
  }

  /** Adds a sentence to the timeline at its first audio or word time. */
  #addToTimeline(utterance, { sentence_index: index, text_span: span }) {
    if (utterance.timeline.sentences.some((each) => each.index === index)) return;
    utterance.timeline.begin(index, span);
    this.onchange("sentence");
  }

  #checkAudio(utterance) {
    if (utterance !== this.#utterance || !this.isBusy || this.#player.isRunning) return;
    utterance.problem = "The browser blocks audio. Press Speak again.";
    this.onchange("problem");
  }

  #onAudioDone(utterance, done) {
    const start = utterance.audioStarts.find((each) => each.sentence_index === done.sentence_index);
    if (start !== undefined) utterance.finishSentence(start, done);
    this.#decoder.end(done);
    this.onchange("report");
  }

  #onSentenceEnd(utterance, start, done) {
    utterance.decoded += 1;
    this.#addToTimeline(utterance, start);
    utterance.timeline.finish(done.sentence_index, done.error);
    if (utterance.playbackId !== null) this.#player.sentenceDone();
    this.onchange("sentence");
    this.#endIfDecoded(utterance);
  }

  #onSessionDone(utterance, { continuity }) {
    utterance.complete = true;
    utterance.serverReport = continuity ?? null;
    this.onchange("report");
    this.#endIfDecoded(utterance);
  }

  #endIfDecoded(utterance) {
    if (!utterance.complete || utterance.decoded < utterance.audioStarts.length || !this.isBusy) return;
    if (utterance.playbackId !== null) this.#player.end();
    else this.#end(utterance.problem === null ? "spoken" : "failed"); // an utterance without audio
  }

  #onCancelled(utterance, message) {
    const { stoppedAtMs } = utterance;
    utterance.cancelled = { ...message, after_ms: stoppedAtMs === null ? null : performance.now() - stoppedAtMs };
    this.onchange("cancelled");
  }

  // -- Errors -------

  #onWarning({ message }) {
    if (this.#utterance === null) return;
    this.#utterance.warning = `Warning from the server: ${message}.`;
    this.onchange("problem");
  }

  #onError(message) {
    const utterance = this.#utterance;
    if (utterance === null || !this.isBusy) return;
    if (message.context_id !== undefined && message.context_id !== utterance.contextId) return;
    if (message.sentence_index === undefined || message.sentence_index === null) {
      this.#client.close(); // the request as a whole has failed
      utterance.retryAfterMs = message.retry_after_ms ?? null;
      this.#fail(utterance, errorMessage(message));
      return;
    }
    utterance.problem = errorMessage(message); // one sentence failed, the others continue
    this.onchange("problem");
  }

  #onDecoderError(error) {
    const utterance = this.#utterance;
    if (utterance === null || !this.isBusy) return;
    this.#client.close();
    this.#fail(utterance, `The page cannot play the server's audio (${error.message}).`);
  }

  #onClosed({ code, opened }) {
    const utterance = this.#utterance;
    if (utterance === null || !this.isBusy || utterance.complete) return; // nothing is missing
    if (opened) this.#fail(utterance, closeMessage({ code }));
    else this.#probe().then((status) => this.#fail(utterance, unreachableMessage(status)));
  }

  // -- Playback -------

  /** Update the playback position with the player's stats; those of other utterances are ignored. */
  onPlayerStats(stats) {
    const utterance = this.#utterance;
    if (utterance === null || utterance.playbackId === null || stats.playback_id !== utterance.playbackId) return;
    utterance.stats = { ...INITIAL_STATS, ...stats };
    const audible = stats.first_audible;
    if (audible !== null && stats.context_time_s - audible.context_time_s < CLOCKS_SETTLE_S) {
      utterance.firstAudibleMs = this.#player.audibleAtMs(audible);
      utterance.outputLatencyMs = this.#player.outputLatencyMs;
    }
    if (stats.silent && utterance.stoppedAtMs !== null) {
      utterance.silentAfterMs ??= Math.max(0, this.#player.audibleAtMs(stats.silent) - utterance.stoppedAtMs);
    }
    if (this.isBusy && utterance.outcome === null) this.#updateState(utterance);
    this.onchange("stats");
  }

  #updateState(utterance) {
    const { stats } = utterance;
    if (stats.state === "finished") {
      this.#end(utterance.problem === null ? "spoken" : "failed");
      return;
    }
    if (stats.state === "playing") this.#setState("speaking");
    else if (stats.state === "filling" && stats.played_ms > 0) {
      this.#setState(utterance.awaitsText ? "waiting" : "rebuffering");
    }
    this.#reportPlayback(utterance);
  }

  #reportPlayback(utterance) {
    if (utterance.complete || !this.#client.isOpen) return;
    if (performance.now() - this.#reportedAtMs < REPORT_EVERY_MS) return;
    this.#reportedAtMs = performance.now();
    const { played_ms, buffered_ms, underruns } = utterance.stats;
    this.#client.reportPlayback({
      contextId: utterance.contextId,
      playedMs: Math.round(played_ms),
      bufferedMs: Math.round(buffered_ms),
      underruns,
    });
  }

  /** Fail with a message.  Audio that has arrived is still played. */
  #fail(utterance, problem) {
    if (utterance !== this.#utterance || !this.isBusy) return; // another utterance has begun
    utterance.problem = problem;
    this.onchange("problem");
    if (utterance.playbackId !== null && utterance.stats.state !== "finished") this.#player.end();
    else this.#end("failed");
  }

  #end(outcome) {
    this.#utterance.outcome = outcome;
    this.#setState("idle");
  }

  #setState(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.onchange("state");
  }
}

/** The rate of a sentence's decoded audio. */
function rateOf({ format, sample_rate }) {
  return decodedRateHz(format, sample_rate);
}

function nowS() {
  return performance.now() / 1000;
}
