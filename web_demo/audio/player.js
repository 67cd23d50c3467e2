// Audio output of the page: one AudioContext and one worklet node, which reports what was played.
//
// Playback runs on the audio thread: it continues in a background tab, whose timers are throttled.

import { Recording } from "./recording.js";

export class Player {
  /** Called 20 times a second during playback, with the worklet's stats. */
  onstats = () => {};
  #context = null;
  #node = null;
  #ready = null;
  #pending = []; // messages posted while the worklet module loads
  #playbackId = 0;
  #recording = null;
  #stats = null; // the last ones of the present utterance

  /** Open the audio device.  Call it in a click or key handler: browsers allow sound only there. */
  prepare() {
    if (this.#context === null) {
      this.#context = new AudioContext({ latencyHint: "interactive" });
      this.#ready = this.#load();
    }
    if (this.#context.state !== "running") this.#context.resume().catch(() => {}); // see `isRunning`
    return this.#ready;
  }

  get isRunning() {
    return this.#context?.state === "running";
  }

  /** From the worklet to the loudspeaker, by the browser's estimate. */
  get outputLatencyMs() {
    if (this.#context === null) return 0;
    return 1000 * (this.#context.outputLatency || this.#context.baseLatency || 0); // Safari has no outputLatency
  }

  /**
   * When a sample is audible, on performance.now()'s clock: the later of two estimates, because each can be early.
   * A device that has just opened reports times before the sample was rendered; render time plus latency ignores
   * samples that were rendered far ahead.
   */
  audibleAtMs({ context_time_s, rendered_unix_ms }) {
    const renderedMs = performance.now() - (Date.now() - rendered_unix_ms); // a worklet has no performance.now()
    const { contextTime, performanceTime } = this.#context.getOutputTimestamp();
    const byDevice = contextTime > 0 ? performanceTime + (context_time_s - contextTime) * 1000 : 0;
    return Math.max(renderedMs + this.outputLatencyMs, byDevice);
  }

  /**
   * The sample of the utterance that is audible now: the last stats, extrapolated by the device's clock.  Stats are
   * 50 ms apart, and a word can begin in between.
   */
  playedSamples() {
    if (this.#stats === null) return 0;
    const { state, played_samples, buffered_ms, context_time_s } = this.#stats;
    const rateHz = this.#recording.sampleRateHz;
    if (state === "finished") return played_samples;
    const sinceS = state === "playing" ? Math.max(0, this.#context.currentTime - context_time_s) : 0;
    const rendered = played_samples + Math.min(sinceS, buffered_ms / 1000) * rateHz;
    return Math.max(0, rendered - (this.outputLatencyMs / 1000) * rateHz);
  }

  /** The audio of this utterance; null before the first. */
  get recording() {
    return this.#recording;
  }

  /** Begin an utterance; returns the `playback_id` of its stats. */
  begin(sampleRateHz) {
    this.#playbackId += 1;
    this.#recording = new Recording(sampleRateHz);
    this.#stats = null;
    this.#post({ type: "begin", playbackId: this.#playbackId, sampleRateHz });
    return this.#playbackId;
  }

  /** Play s16 samples.  The array's memory is transferred to the audio thread. */
  push(samples) {
    this.#recording?.add(samples);
    this.#post({ type: "audio", samples }, [samples.buffer]);
  }

  sentenceDone() {
    this.#post({ type: "sentence-done" });
  }

  /** See JitterBuffer. */
  textStarved() {
    this.#post({ type: "text-starved" });
  }

  end() {
    this.#post({ type: "end" });
  }

  /** Fade out within milliseconds and drop what is buffered. */
  stop() {
    this.#pending.length = 0;
    if (this.#node !== null) this.#post({ type: "stop" });
  }

  async #load() {
    const context = this.#context;
    await context.audioWorklet.addModule(new URL("./player-worklet.js", import.meta.url));
    const node = new AudioWorkletNode(context, "rtts-player", { numberOfInputs: 0, outputChannelCount: [1] });
    node.port.onmessage = ({ data }) => {
      if (data.playback_id === this.#playbackId) this.#stats = data;
      this.onstats(data);
    };
    node.connect(context.destination);
    this.#node = node;
    for (const [message, transfer] of this.#pending.splice(0)) this.#post(message, transfer);
  }

  #post(message, transfer = []) {
    if (this.#node === null) this.#pending.push([message, transfer]);
    else this.#node.port.postMessage(message, transfer);
  }
}
