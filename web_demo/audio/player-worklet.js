// AudioWorklet processor: plays from the jitter buffer and reports playback statistics 20 times a second.

import { AdaptiveBufferTarget } from "./buffer-target.js";
import { JitterBuffer } from "./jitter-buffer.js";

const STATS_PER_S = 20;
const AUDIBLE = 10 ** (-50 / 20); // -50 dBFS: above the noise that models generate before speech

class PlayerProcessor extends AudioWorkletProcessor {
  #buffer = null;
  #target = new AdaptiveBufferTarget(); // kept from utterance to utterance: the network stays the same
  #fading = null; // the buffer of a stopped utterance, mixed into the next one until it has faded out
  #scratch = new Float32Array(128);
  #playbackId = 0;
  #firstAudible = null; // a `moment`
  #stopped = false;
  #silent = null; // the `moment` after the fade-out of a stop
  #postedState = "";
  #silentPosts = 0; // posts after the end, so that the page sees a level of zero
  #frames = 0;
  #squares = 0;
  #peak = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#receive(data);
  }

  #receive(message) {
    switch (message.type) {
      case "begin":
        this.#stop();
        this.#fading = this.#buffer?.state === "stopping" ? this.#buffer : null;
        this.#buffer = new JitterBuffer({
          inputRateHz: message.sampleRateHz,
          outputRateHz: sampleRate,
          target: this.#target,
        });
        this.#playbackId = message.playbackId;
        this.#firstAudible = null;
        this.#stopped = false;
        this.#silent = null;
        this.#silentPosts = 0;
        break;
      case "audio":
        this.#buffer?.push(message.samples);
        break;
      case "sentence-done":
        this.#buffer?.sentenceDone();
        break;
      case "text-starved":
        this.#buffer?.textStarved();
        break;
      case "end":
        this.#buffer?.end();
        break;
      case "stop":
        this.#stop();
        break;
    }
  }

  #stop() {
    if (this.#buffer === null || this.#buffer.state === "finished") return;
    this.#stopped = true;
    this.#buffer.stop();
  }

  process(_inputs, outputs) {
    const out = outputs[0][0];
    if (this.#buffer === null) return true;
    this.#buffer.pull(out);
    if (this.#fading !== null) this.#mixFading(out);
    if (this.#stopped && this.#buffer.state === "finished") this.#silent ??= moment(quietFrom(out));
    this.#measure(out);
    if (this.#buffer.state !== this.#postedState || this.#frames >= sampleRate / STATS_PER_S) this.#post();
    return true;
  }

  #mixFading(out) {
    if (this.#scratch.length !== out.length) this.#scratch = new Float32Array(out.length);
    this.#fading.pull(this.#scratch);
    for (let i = 0; i < out.length; i++) out[i] += this.#scratch[i];
    if (this.#fading.state === "finished") this.#fading = null;
  }

  #measure(out) {
    for (let i = 0; i < out.length; i++) {
      const level = Math.abs(out[i]);
      if (level > AUDIBLE && this.#firstAudible === null) {
        this.#firstAudible = moment(i);
      }
      if (level > this.#peak) this.#peak = level;
      this.#squares += level * level;
    }
    this.#frames += out.length;
  }

  #post() {
    if (this.#buffer.state === "finished" && this.#silentPosts++ > 2) {
      this.#frames = 0;
      return;
    }
    this.#postedState = this.#buffer.state;
    this.port.postMessage({
      ...this.#buffer.stats(),
      playback_id: this.#playbackId,
      rms: Math.sqrt(this.#squares / this.#frames),
      peak: this.#peak,
      first_audible: this.#firstAudible,
      silent: this.#silent,
      context_time_s: currentTime,
    });
    this.#frames = 0;
    this.#squares = 0;
    this.#peak = 0;
  }
}

/** When a frame of this block is played, on the context's clock, and when it was rendered. */
function moment(frame) {
  return { context_time_s: currentTime + frame / sampleRate, rendered_unix_ms: Date.now() };
}

function quietFrom(out) {
  return 1 + out.findLastIndex((sample) => sample !== 0);
}

registerProcessor("rtts-player", PlayerProcessor);
