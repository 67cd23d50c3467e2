// One "say this" after another: takes each through client, decoder, player and ledger, and says how it stands.
//
// No DOM.  `snapshot` is the whole truth that the page shows and that tests read.

import { FormatError, SpeechDecoder, decodedRateHz } from "../audio/decoder.js";
import { NOTHING_HEARD, Run } from "./utterance.js";
import { closeInWords, errorInWords, unreachableInWords } from "../panels/display-text.js";

const SOUND_CHECK_MS = 1500; // an audio device that has not started by then was blocked, or is not there
const CLOCKS_SETTLE_S = 0.5; // a device that has just started reports its latency better a moment later
const REPORT_EVERY_MS = 1000; // playback.report: what was really heard, for the server's reckoning
const IDLE = Object.freeze(new Run({ contextId: null, config: null, askedAtMs: 0 }).snapshot);

let contexts = 0; // over all speakers, since they may share a connection's log

export class Speaker {
  /** Called after every change: (what) => …, `what` in "state", "text", "sentence", "packet", "stats", "problem",
   * "server", "report", "cut", "link". */
  onchange = () => {};
  #client;
  #player;
  #probe;
  #decoder;
  #run = null;
  #state = "idle"; // idle, connecting, waiting (asked, nothing to hear yet), speaking, rebuffering
  #server = null; // the last `session.created`
  #reportedAtMs = 0;

  /** `probe` asks whether the server is ready: a promise of an HTTP status, or of null when nothing answers. */
  constructor({ client, player, probe }) {
    this.#client = client;
    this.#player = player;
    this.#probe = probe;
    this.#decoder = new SpeechDecoder({
      onpcm: (samples, start) => this.#mine(start, (run) => this.#onPcm(run, samples, start)),
      onend: (start, done) => this.#mine(start, (run) => this.#onSentenceEnd(run, start, done)),
      onerror: (error) => this.#onDecoderError(error),
    });
    const ours = (handle) => (message) => this.#mine(message, (run) => handle.call(this, run, message));
    client
      .on("open", () => this.#onOpen())
      .on("state", () => this.onchange("link"))
      .on("message", (message) => this.#onMessage(message))
      .on("sent", (sent) => this.#onSent(sent))
      .on("session.created", (message) => this.#onCreated(message))
      .on("audio.start", ours(this.#onAudioStart))
      .on("audio.timestamps", ours(this.#onTimestamps))
      .on("audio", (packet) => this.#mine(packet.start, (run) => this.#onAudio(run, packet)))
      .on("audio.done", ours(this.#onAudioDone))
      .on("audio.cancelled", ours(this.#onCancelled))
      .on("session.done", ours(this.#onSessionDone))
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
  get run() {
    return this.#run;
  }

  get client() {
    return this.#client;
  }

  /** The sample that is being heard now. */
  get playedSamples() {
    const run = this.#run;
    if (run === null || run.utterance === null) return 0;
    if (run.heardSamples !== null) return run.heardSamples;
    if (run.stats.state === "finished") return run.stats.played_samples;
    return Math.min(run.timeline.samples, this.#player.playedSamples());
  }

  get snapshot() {
    return { state: this.#state, ...(this.#run?.snapshot ?? IDLE) };
  }

  // -- Asking -------

  /** Speak `text`.  `askedAtMs` is when the listener asked, on performance.now()'s clock.  Call it inside a gesture. */
  speak({ text, config, askedAtMs }) {
    this.begin({ config, askedAtMs });
    this.write(text);
    this.finish();
  }

  /** Open an utterance whose text follows by `write`, and ends with `finish`. */
  begin({ config, askedAtMs }) {
    if (this.isBusy) this.stop();
    if (this.#client.state === "reconnecting") this.#client.close(); // somebody is here who does not want to wait
    this.#decoder.clear(); // a lost connection leaves a sentence that will never end
    contexts += 1;
    const run = new Run({ contextId: `u${contexts}`, config, askedAtMs });
    this.#run = run;
    if (this.#client.isOpen) run.connectedMs = askedAtMs;
    this.#setState(this.#client.isOpen ? "waiting" : "connecting");
    this.#player.prepare().catch(() => this.#onNoPlayer(run));
    this.#client.connect(config);
  }

  write(text) {
    if (!this.isBusy || text === "") return;
    this.#run.write(text, nowS());
    this.#client.sendText(text, { contextId: this.#run.contextId });
    this.onchange("text");
  }

  finish() {
    if (!this.isBusy) return;
    this.#run.inputDoneS = nowS();
    this.#client.done({ contextId: this.#run.contextId });
  }

  /** Barge in: silence within milliseconds, and the server is told what was heard.  `atMs`: when the listener asked. */
  stop(atMs = performance.now()) {
    if (!this.isBusy) return;
    const run = this.#run;
    run.stoppedAtMs = atMs;
    run.heardSamples = this.playedSamples;
    this.#player.stop();
    this.#decoder.clear();
    if (this.#client.isOpen && run.sent.length > 0) {
      const playedS = run.sampleRateHz === null ? 0 : run.heardSamples / run.sampleRateHz;
      this.#client.cancel({ playbackOffsetMs: Math.round(playedS * 1000), contextId: run.contextId });
    } else {
      this.#client.close();
    }
    this.#end("stopped");
  }

  #onNoPlayer(run) {
    if (run !== this.#run || !this.isBusy) return;
    this.#client.close();
    run.utterance = null; // there is nothing that could still be heard
    this.#fail(run, "The browser would not start an AudioWorklet, so nothing can be heard. It needs https, or localhost.");
  }

  // -- Hearing -------

  /** Only what is about the present utterance; a barge-in leaves words of the last one on the way. */
  #mine(message, handle) {
    const run = this.#run;
    if (run !== null && message?.context_id === run.contextId) handle(run);
  }

  #onOpen() {
    const run = this.#run;
    if (run === null || !this.isBusy) return;
    run.connectedMs = performance.now();
    this.#setState("waiting");
  }

  #onMessage({ direction, data }) {
    const run = this.#run;
    if (direction !== "out" || data.type !== "input.text" || data.context_id !== run?.contextId) return;
    run.firstText ??= data;
    run.firstTextMs ??= performance.now();
  }

  #onSent({ at_s, data }) {
    if (data === this.#run?.firstText) this.#run.firstTextMs = at_s * 1000;
  }

  #onCreated(message) {
    this.#server = message;
    this.onchange("server");
  }

  #onAudioStart(run, start) {
    run.starts.push(start);
    try {
      this.#decoder.begin(start);
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      this.#onDecoderError(error);
    }
  }

  #onTimestamps(run, { sentence_index, status, words }) {
    const start = run.starts.find((each) => each.sentence_index === sentence_index);
    if (start === undefined) return;
    this.#sentence(run, start);
    run.timeline.time(sentence_index, status, words, rateOf(start));
    run.words.push(...words);
    this.onchange("sentence");
  }

  #onAudio(run, { bytes, start, arrived_at_s }) {
    if (this.#state === "idle") return; // what a stop left on the way
    if (run.firstPacketMs === null) {
      run.firstPacketMs = arrived_at_s * 1000;
      setTimeout(() => this.#checkSound(run), SOUND_CHECK_MS);
    }
    if (run.receive({ bytes, start, arrived_at_s })) this.#player.textStarved();
    this.#decoder.push(bytes);
    this.onchange("packet");
  }

  #onPcm(run, samples, start) {
    if (this.#state === "idle") return;
    const rateHz = rateOf(start);
    if (run.utterance === null) {
      run.sampleRateHz = rateHz;
      run.utterance = this.#player.begin(rateHz);
    } else if (run.sampleRateHz !== rateHz) {
      this.#onDecoderError(new Error(`the rate changed to ${rateHz} Hz`));
      return;
    }
    this.#sentence(run, start);
    run.timeline.add(samples.length);
    this.#player.push(samples);
  }

  /** The timeline's entry of a sentence, begun with its first sound or word. */
  #sentence(run, start) {
    const { sentence_index: index, text_span: span } = start;
    if (run.timeline.sentences.some((each) => each.index === index)) return;
    run.timeline.begin(index, span);
    this.onchange("sentence");
  }

  #checkSound(run) {
    if (run !== this.#run || !this.isBusy || this.#player.isRunning) return;
    run.problem = "The browser is holding the sound back. Press Speak once more.";
    this.onchange("problem");
  }

  #onAudioDone(run, done) {
    const start = run.starts.find((each) => each.sentence_index === done.sentence_index);
    if (start !== undefined) run.finish(start, done);
    this.#decoder.end(done);
    this.onchange("report");
  }

  #onSentenceEnd(run, start, done) {
    run.decoded += 1;
    this.#sentence(run, start);
    run.timeline.finish(done.sentence_index, done.error);
    if (run.utterance !== null) this.#player.sentenceDone();
    this.onchange("sentence");
    this.#endWhenDecoded(run);
  }

  #onSessionDone(run, { continuity, usage }) {
    run.complete = true;
    run.serverReport = continuity ?? null;
    run.usage = usage ?? null;
    this.onchange("report");
    this.#endWhenDecoded(run);
  }

  #endWhenDecoded(run) {
    if (!run.complete || run.decoded < run.starts.length || !this.isBusy) return;
    if (run.utterance !== null) this.#player.end();
    else this.#end(run.problem === null ? "spoken" : "failed"); // an utterance without a sound
  }

  #onCancelled(run, message) {
    run.cut = { ...message, after_ms: run.stoppedAtMs === null ? null : performance.now() - run.stoppedAtMs };
    this.onchange("cut");
  }

  // -- What goes wrong -------

  #onWarning({ message }) {
    if (this.#run === null) return;
    this.#run.warning = `The server says: ${message}.`;
    this.onchange("problem");
  }

  #onError(message) {
    const run = this.#run;
    if (run === null || !this.isBusy) return;
    if (message.context_id !== undefined && message.context_id !== run.contextId) return;
    if (message.sentence_index === undefined || message.sentence_index === null) {
      this.#client.close(); // nothing that we asked for can still come as asked
      run.retryAfterMs = message.retry_after_ms ?? null;
      this.#fail(run, errorInWords(message));
      return;
    }
    run.problem = errorInWords(message); // one sentence failed, the others go on
    this.onchange("problem");
  }

  #onDecoderError(error) {
    const run = this.#run;
    if (run === null || !this.isBusy) return;
    this.#client.close();
    this.#fail(run, `The server sent audio this page cannot play (${error.message}).`);
  }

  #onClosed({ code, opened }) {
    const run = this.#run;
    if (run === null || !this.isBusy || run.complete) return; // between utterances, or all of it is here
    if (opened) this.#fail(run, closeInWords({ code }));
    else this.#probe().then((status) => this.#fail(run, unreachableInWords(status)));
  }

  // -- What was heard -------

  /** The player's stats; those of another utterance than ours are not for us. */
  hear(stats) {
    const run = this.#run;
    if (run === null || run.utterance === null || stats.utterance !== run.utterance) return;
    run.stats = { ...NOTHING_HEARD, ...stats };
    const audible = stats.first_audible;
    if (audible !== null && stats.context_time_s - audible.context_time_s < CLOCKS_SETTLE_S) {
      run.firstAudibleMs = this.#player.heardAtMs(audible);
      run.outputLatencyMs = this.#player.outputLatencyMs;
    }
    if (stats.silent && run.stoppedAtMs !== null) {
      run.silentAfterMs ??= Math.max(0, this.#player.heardAtMs(stats.silent) - run.stoppedAtMs);
    }
    if (this.isBusy && run.outcome === null) this.#follow(run);
    this.onchange("stats");
  }

  #follow(run) {
    const { stats } = run;
    if (stats.state === "finished") {
      this.#end(run.problem === null ? "spoken" : "failed");
      return;
    }
    if (stats.state === "playing") this.#setState("speaking");
    else if (stats.state === "filling" && stats.played_ms > 0) this.#setState(run.awaitsText ? "waiting" : "rebuffering");
    this.#tellServer(run);
  }

  #tellServer(run) {
    if (run.complete || !this.#client.isOpen || performance.now() - this.#reportedAtMs < REPORT_EVERY_MS) return;
    this.#reportedAtMs = performance.now();
    const { played_ms, buffered_ms, underruns } = run.stats;
    this.#client.reportPlayback({
      contextId: run.contextId,
      playedMs: Math.round(played_ms),
      bufferedMs: Math.round(buffered_ms),
      underruns,
    });
  }

  /** Give up, in words.  What has arrived is still played to its end: it is honest audio. */
  #fail(run, problem) {
    if (run !== this.#run || !this.isBusy) return; // the listener has moved on
    run.problem = problem;
    this.onchange("problem");
    if (run.utterance !== null && run.stats.state !== "finished") this.#player.end();
    else this.#end("failed");
  }

  #end(outcome) {
    this.#run.outcome = outcome;
    this.#setState("idle");
  }

  #setState(state) {
    if (state === this.#state) return;
    this.#state = state;
    this.onchange("state");
  }
}

/** Of what is played of a sentence. */
function rateOf({ format, sample_rate }) {
  return decodedRateHz(format, sample_rate);
}

function nowS() {
  return performance.now() / 1000;
}
