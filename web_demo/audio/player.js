// The loudspeaker as the page sees it: one AudioContext, one worklet node, and a stream of "this was heard" reports.
//
// All that must be in time happens on the audio thread: a page in the background, whose timers are slow, plays on.

import { Recording } from "./recording.js";

export class Player {
  /** Called about 20 times a second while something plays, with the worklet's stats. */
  onstats = () => {};
  #context = null;
  #node = null;
  #ready = null;
  #pending = []; // messages sent while the worklet module is still loading
  #utterance = 0;
  #recording = null;
  #stats = null; // the last ones, of the current utterance

  /** Open the audio device.  Call it inside a click or a key press: browsers allow sound only from there. */
  prepare() {
    if (this.#context === null) {
      this.#context = new AudioContext({ latencyHint: "interactive" });
      this.#ready = this.#load();
    }
    if (this.#context.state !== "running") this.#context.resume().catch(() => {}); // `isRunning` tells
    return this.#ready;
  }

  get isRunning() {
    return this.#context?.state === "running";
  }

  /** From the worklet to the ear, as far as the browser knows. */
  get outputLatencyMs() {
    if (this.#context === null) return 0;
    return 1000 * (this.#context.outputLatency || this.#context.baseLatency || 0); // Safari has no outputLatency
  }

  /**
   * When a sample reaches the ear, on performance.now()'s clock: the later of two estimates, since each can be early.
   * A device that starts up runs late and catches up, and its own clock then claims sound from before it was rendered;
   * hand-over plus latency knows nothing of samples rendered well ahead.
   */
  heardAtMs({ context_time_s, rendered_unix_ms }) {
    const handedOver = performance.now() - (Date.now() - rendered_unix_ms); // a worklet has no performance.now()
    const { contextTime, performanceTime } = this.#context.getOutputTimestamp();
    const byDevice = contextTime > 0 ? performanceTime + (context_time_s - contextTime) * 1000 : 0;
    return Math.max(handedOver + this.outputLatencyMs, byDevice);
  }

  /**
   * The sample of the utterance that is at the ear now: what the last stats told, carried on by the device's clock.
   * Between two stats lie 50 ms, in which a word can begin.
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

  /** What was handed over of this utterance, to be saved; null before the first. */
  get recording() {
    return this.#recording;
  }

  /** Start an utterance; returns its number, which its stats carry. */
  begin(sampleRateHz) {
    this.#utterance += 1;
    this.#recording = new Recording(sampleRateHz);
    this.#stats = null;
    this.#post({ type: "begin", utterance: this.#utterance, sampleRateHz });
    return this.#utterance;
  }

  /** Hand over s16 samples.  The array's memory moves to the audio thread. */
  push(samples) {
    this.#recording?.add(samples);
    this.#post({ type: "audio", samples }, [samples.buffer]);
  }

  sentenceDone() {
    this.#post({ type: "sentence-done" });
  }

  /** The text of the next sentence came after the sound before it was over: no fault of the line's. */
  textStarved() {
    this.#post({ type: "text-starved" });
  }

  end() {
    this.#post({ type: "end" });
  }

  /** Fade out within milliseconds and forget what is buffered. */
  stop() {
    this.#pending.length = 0;
    if (this.#node !== null) this.#post({ type: "stop" });
  }

  async #load() {
    const context = this.#context;
    await context.audioWorklet.addModule(new URL("./player-worklet.js", import.meta.url));
    const node = new AudioWorkletNode(context, "rtts-player", { numberOfInputs: 0, outputChannelCount: [1] });
    node.port.onmessage = ({ data }) => {
      if (data.utterance === this.#utterance) this.#stats = data;
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
