// Jitter buffer: buffers up to the target, plays, and bridges gaps without a click.
//
// Pure logic, one instance per utterance, without Web Audio or a clock.  It runs in the AudioWorklet and in Node tests.
//
//   filling --target reached, or sentence complete--> playing --empty in mid-stream--> filling (a gap)
//   playing --empty after end()--> finished          any --stop()--> stopping --faded out--> finished

import { AdaptiveBufferTarget } from "./buffer-target.js";
import { Resampler } from "./resampler.js";

export class JitterBuffer {
  #resampler;
  #inputRateHz;
  #outputRateHz;
  #state = "filling";
  #target;
  #fadeStep;
  #fadeFrames;
  #gain = 1;
  #started = false; // some audio was played
  #released = false; // the buffer has a complete sentence: more audio may never come, so do not wait for the target
  #ended = false;
  #starved = false; // the open gap is a wait for text, not for late audio
  #receivedWhenDry = 0;
  #gapFrames = 0; // of the open gap
  #lateFrames = 0; // … until its first packet arrived; the rest is the wait for the target
  #underruns = 0;
  #gapTotalFrames = 0;
  #gapWorstFrames = 0;
  #starvedFrames = 0;

  constructor({ inputRateHz, outputRateHz, target = new AdaptiveBufferTarget(), fadeMs = 5 }) {
    this.#resampler = new Resampler(inputRateHz, outputRateHz);
    this.#inputRateHz = inputRateHz;
    this.#outputRateHz = outputRateHz;
    this.#target = target;
    this.#fadeFrames = Math.max(1, Math.round((fadeMs * outputRateHz) / 1000));
    this.#fadeStep = 1 / this.#fadeFrames;
  }

  get state() {
    return this.#state;
  }

  /** Add s16 samples at the input rate. */
  push(samples) {
    if (this.#state === "stopping" || this.#state === "finished") return; // late packets of a stopped utterance
    this.#resampler.push(samples);
  }

  /** The sentence is complete: play what is buffered, even below the target. */
  sentenceDone() {
    this.#released = this.#resampler.available > 0;
  }

  /** The next sentence's text arrived after the audio before it had ended: the wait is not an underrun. */
  textStarved() {
    this.#starved = this.#started && this.#state === "filling";
  }

  /** The utterance is complete: an empty buffer is now the end, not a gap. */
  end() {
    if (this.#ended) return;
    this.#ended = true;
    this.#resampler.finish();
    // A wait that no audio ended is not a gap: nothing was late.
    if (this.#state === "filling" && this.#resampler.available === 0) this.#state = "finished";
  }

  /** Fade out and drop the rest. */
  stop() {
    if (this.#state === "playing") this.#state = "stopping";
    else if (this.#state === "filling") this.#state = "finished";
  }

  /** Fill `out` with the next samples, or with silence. */
  pull(out) {
    if (this.#state === "filling" && this.#isReady()) this.#resume();
    const written = this.#state === "playing" || this.#state === "stopping" ? this.#render(out) : 0;
    out.fill(0, written);
    if (this.#state === "filling" && this.#started) this.#addGap(out.length - written);
  }

  stats() {
    const toMs = 1000 / this.#outputRateHz;
    const { received, consumed } = this.#resampler;
    return {
      state: this.#state,
      played_samples: consumed,
      played_ms: (consumed * 1000) / this.#inputRateHz,
      buffered_ms: this.#state === "finished" ? 0 : ((received - consumed) * 1000) / this.#inputRateHz,
      underruns: this.#underruns,
      gap_total_ms: this.#gapTotalFrames * toMs,
      gap_worst_ms: this.#gapWorstFrames * toMs,
      gap_open_ms: this.#gapFrames * toMs,
      text_starvation_ms: this.#starvedFrames * toMs,
      buffer_target_ms: this.#target.ms,
    };
  }

  get #hasNewAudio() {
    return this.#resampler.received > this.#receivedWhenDry;
  }

  #isReady() {
    const available = this.#resampler.available;
    if (available === 0) return false;
    return this.#released || this.#ended || available >= (this.#target.ms * this.#outputRateHz) / 1000;
  }

  #addGap(frames) {
    this.#gapFrames += frames;
    if (!this.#hasNewAudio) this.#lateFrames += frames;
  }

  #resume() {
    this.#state = "playing";
    // end() releases the filter's look-ahead.  That is not late audio: without a new packet there was no wait.
    if (this.#started && this.#hasNewAudio) this.#countGap();
    this.#gapFrames = 0;
    this.#lateFrames = 0;
    this.#starved = false;
    this.#started = true;
  }

  #countGap() {
    if (this.#starved) {
      this.#starvedFrames += this.#gapFrames;
      return;
    }
    this.#underruns += 1;
    this.#gapTotalFrames += this.#gapFrames;
    this.#gapWorstFrames = Math.max(this.#gapWorstFrames, this.#gapFrames);
    this.#target.recordUnderrun((this.#lateFrames * 1000) / this.#outputRateHz);
  }

  #render(out) {
    const available = this.#resampler.available;
    const written = this.#resampler.read(out);
    for (let i = 0; i < written; i++) {
      // The gain changes by one step per sample, and reaches 0 at the last available sample.
      const rise = this.#state === "stopping" ? -this.#fadeStep : this.#fadeStep;
      const ceiling = Math.min(1, (available - i - 1) * this.#fadeStep);
      this.#gain = Math.max(0, Math.min(this.#gain + rise, ceiling));
      out[i] *= this.#gain;
    }
    this.#target.recordPlayback((written * 1000) / this.#outputRateHz);
    if (this.#state === "stopping" && (this.#gain === 0 || written < out.length)) this.#state = "finished";
    else if (written < out.length) this.#runDry();
    return written;
  }

  #runDry() {
    this.#receivedWhenDry = this.#resampler.received;
    this.#released = false;
    this.#state = this.#ended ? "finished" : "filling";
  }
}
