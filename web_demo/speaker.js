// One "say this": runs a request through client, player, ledger and timeline, and says at any moment how it stands.
//
// No DOM.  `snapshot` is the whole truth that the page shows and that tests read.

import { PlayoutLedger } from "./playout.js";
import { SentenceTimeline } from "./timeline.js";
import { closeInWords, errorInWords, unreachableInWords } from "./words.js";

const SOUND_CHECK_MS = 1500; // an audio device that has not started by then was blocked, or is not there

const CLOCKS_SETTLE_S = 0.5; // a device that has just started reports its latency better a moment later

const NOTHING_HEARD = {
  state: "filling",
  played_samples: 0,
  played_ms: 0,
  buffered_ms: 0,
  underruns: 0,
  gap_worst_ms: 0,
  gap_open_ms: 0,
  rms: 0,
};

export class Speaker {
  /** Called after every change: (what) => …, `what` in "state", "sentence", "packet", "stats", "problem", "server". */
  onchange = () => {};
  #client;
  #player;
  #probe;
  #run = null;
  #state = "idle"; // idle, connecting, waiting (asked, nothing to hear yet), speaking, rebuffering
  #server = null; // the last `session.created`

  /** `probe` asks whether the server is ready: a promise of an HTTP status, or of null when nothing answers. */
  constructor({ client, player, probe }) {
    this.#client = client;
    this.#player = player;
    this.#probe = probe;
    player.onstats = (stats) => this.#onStats(stats);
    client
      .on("open", () => this.#setState("waiting"))
      .on("session.created", (message) => this.#onCreated(message))
      .on("audio.start", (message) => this.#onAudioStart(message))
      .on("audio", (packet) => this.#onAudio(packet))
      .on("audio.done", (message) => this.#onAudioDone(message))
      .on("session.done", (message) => this.#onSessionDone(message))
      .on("warning", (message) => this.#onWarning(message))
      .on("error", (message) => this.#onError(message))
      .on("closed", (event) => this.#onClosed(event));
  }

  get isBusy() {
    return this.#state !== "idle";
  }

  get server() {
    return this.#server;
  }

  get timeline() {
    return this.#run?.timeline ?? null;
  }

  get playedSamples() {
    const run = this.#run;
    if (run === null) return 0;
    const onTheWay = (this.#player.outputLatencyMs / 1000) * (run.sampleRateHz ?? 0);
    // At the end the stats stop coming, and what was on its way has been heard.
    return run.stats.state === "finished" ? run.stats.played_samples : Math.max(0, run.stats.played_samples - onTheWay);
  }

  get snapshot() {
    const run = this.#run;
    const stats = run?.stats ?? NOTHING_HEARD;
    return {
      state: this.#state,
      buffered_ms: stats.buffered_ms,
      played_ms: stats.played_ms,
      underruns: stats.underruns,
      worst_gap_ms: stats.gap_worst_ms,
      gap_open_ms: stats.gap_open_ms,
      rms: stats.rms,
      first_packet_ms: run?.firstPacketMs ?? null,
      first_audible_ms: run?.firstAudibleMs ?? null,
      silent_after_ms: run?.silentAfterMs ?? null,
      report: run?.ledger.report() ?? null,
      server_report: run?.serverReport ?? null,
      problem: run?.problem ?? null,
      warning: run?.warning ?? null,
      outcome: run?.outcome ?? null,
    };
  }

  /** Speak `text`.  `askedAtMs` is when the listener asked, on performance.now()'s clock.  Call it inside a gesture. */
  speak({ text, voice, askedAtMs }) {
    if (this.isBusy) this.stop();
    const run = {
      askedAtMs,
      ledger: new PlayoutLedger(),
      timeline: new SentenceTimeline(),
      utterance: null,
      sampleRateHz: null,
      stats: NOTHING_HEARD,
      firstPacketMs: null,
      firstAudibleMs: null,
      stoppedAtMs: null,
      silentAfterMs: null,
      serverReport: null,
      complete: false,
      problem: null,
      warning: null,
      outcome: null, // spoken, stopped, failed
    };
    this.#run = run;
    this.#setState(this.#client.isOpen ? "waiting" : "connecting");
    this.#player.prepare().catch(() => this.#onNoPlayer(run));
    this.#client.speak(voice ? { text, voice } : { text });
  }

  stop() {
    if (!this.isBusy) return;
    this.#run.stoppedAtMs = performance.now();
    this.#client.cancel();
    this.#player.stop();
    this.#end("stopped");
  }

  #onNoPlayer(run) {
    if (run !== this.#run) return;
    this.#client.cancel();
    run.utterance = null; // there is nothing that could still be heard
    this.#fail(run, "This browser cannot play the sound: it would not start an AudioWorklet.");
  }

  #onCreated(message) {
    this.#server = message;
    this.onchange("server");
  }

  #onAudioStart({ sentence_index, sentence_text, format, sample_rate }) {
    const run = this.#run;
    if (format !== "pcm" || (run.sampleRateHz !== null && run.sampleRateHz !== sample_rate)) {
      this.#client.close();
      this.#fail(run, `The server sent audio this page cannot play (${format}, ${sample_rate} Hz).`);
      return;
    }
    if (run.utterance === null) {
      run.sampleRateHz = sample_rate;
      run.utterance = this.#player.begin(sample_rate);
    }
    run.timeline.begin(sentence_index, sentence_text);
    this.onchange("sentence");
  }

  #onAudio({ samples, arrived_at_s }) {
    const run = this.#run;
    if (run.utterance === null) return; // audio before any audio.start: nothing says what it is
    if (run.firstPacketMs === null) {
      run.firstPacketMs = performance.now() - run.askedAtMs;
      setTimeout(() => this.#checkSound(run), SOUND_CHECK_MS);
    }
    run.ledger.record({ arrived_at_s, duration_s: samples.length / run.sampleRateHz });
    run.timeline.add(samples.length);
    this.#player.push(samples);
    this.onchange("packet");
  }

  #checkSound(run) {
    if (run !== this.#run || !this.isBusy || this.#player.isRunning) return;
    run.problem = "The browser is holding the sound back. Press Speak once more.";
    this.onchange("problem");
  }

  #onAudioDone({ sentence_index, error }) {
    this.#run.timeline.finish(sentence_index, error);
    this.#player.sentenceDone();
    this.onchange("sentence");
  }

  #onSessionDone({ continuity }) {
    const run = this.#run;
    run.complete = true;
    run.serverReport = continuity ?? null;
    if (run.utterance !== null) this.#player.end();
    else this.#end(run.problem === null ? "spoken" : "failed"); // an utterance without a sound
  }

  #onWarning({ message }) {
    if (this.#run === null) return;
    this.#run.warning = `The server says: ${message}.`;
    this.onchange("problem");
  }

  #onError(message) {
    const run = this.#run;
    if (run === null || !this.isBusy) return;
    if (message.sentence_index === undefined || message.sentence_index === null) {
      this.#client.close(); // nothing that we asked for can still come as asked
      this.#fail(run, errorInWords(message));
      return;
    }
    run.problem = errorInWords(message); // one sentence failed, the others go on
    this.onchange("problem");
  }

  #onClosed({ code, opened, in_flight }) {
    const run = this.#run;
    if (!in_flight || !this.isBusy) return; // between utterances: the next one opens a new socket
    if (opened) this.#fail(run, closeInWords({ code }));
    else this.#probe().then((status) => this.#fail(run, unreachableInWords(status)));
  }

  #onStats(stats) {
    const run = this.#run;
    if (run === null || stats.utterance !== run.utterance) return;
    run.stats = stats;
    const audible = stats.first_audible;
    if (audible !== null && stats.context_time_s - audible.context_time_s < CLOCKS_SETTLE_S) {
      run.firstAudibleMs = this.#player.heardAtMs(audible) - run.askedAtMs;
    }
    if (stats.state === "finished" && run.stoppedAtMs !== null && run.silentAfterMs === null) {
      run.silentAfterMs = performance.now() - run.stoppedAtMs;
    }
    if (this.isBusy && run.outcome === null) this.#follow(stats);
    this.onchange("stats");
  }

  #follow(stats) {
    if (stats.state === "finished") this.#end(this.#run.problem === null ? "spoken" : "failed");
    else if (stats.state === "playing") this.#setState("speaking");
    else if (stats.state === "filling" && stats.played_ms > 0) this.#setState("rebuffering");
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
