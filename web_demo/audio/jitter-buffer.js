// Decides what the loudspeaker hears next: wait for a small cushion, play, and bridge a gap without a click.
//
// Pure logic, one instance an utterance: no Web Audio and no clock.  It runs in the AudioWorklet and in node's tests.
//
//   filling --cushion reached, or the sentence is complete--> playing --dry in mid-stream--> filling (a gap)
//   playing --dry after end()--> finished          any --stop()--> stopping --faded out--> finished

import { AdaptiveCushion } from "./buffer-target.js";
import { Resampler } from "./resampler.js";

export class JitterBuffer {
  #resampler;
  #inputRateHz;
  #outputRateHz;
  #state = "filling";
  #cushion;
  #fadeStep;
  #fadeFrames;
  #gain = 1;
  #started = false; // something has been heard
  #released = false; // what is buffered is a sentence's end: do not wait for a cushion that may never come
  #ended = false;
  #starved = false; // the gap that is open now is the text's: nobody was late
  #receivedWhenDry = 0;
  #gapFrames = 0; // of the gap that is open now
  #lateFrames = 0; // … until its first packet came; the rest is our own waiting for a cushion
  #underruns = 0;
  #gapTotalFrames = 0;
  #gapWorstFrames = 0;
  #starvedFrames = 0;

  constructor({ inputRateHz, outputRateHz, cushion = new AdaptiveCushion(), fadeMs = 5 }) {
    this.#resampler = new Resampler(inputRateHz, outputRateHz);
    this.#inputRateHz = inputRateHz;
    this.#outputRateHz = outputRateHz;
    this.#cushion = cushion;
    this.#fadeFrames = Math.max(1, Math.round((fadeMs * outputRateHz) / 1000));
    this.#fadeStep = 1 / this.#fadeFrames;
  }

  get state() {
    return this.#state;
  }

  /** Take s16 samples at the stream's rate. */
  push(samples) {
    if (this.#state === "stopping" || this.#state === "finished") return; // late packets of a stopped utterance
    this.#resampler.push(samples);
  }

  /** The sentence is complete: whatever is buffered may play, cushion or not. */
  sentenceDone() {
    this.#released = this.#resampler.available > 0;
  }

  /** The text of the next sentence came too late for anyone to speak it in time: its wait is no underrun. */
  textStarved() {
    this.#starved = this.#started && this.#state === "filling";
  }

  /** The utterance is complete: running dry from here on is the end, not a gap. */
  end() {
    if (this.#ended) return;
    this.#ended = true;
    this.#resampler.finish();
    // A wait that no audio ended was no gap: nothing was late.
    if (this.#state === "filling" && this.#resampler.available === 0) this.#state = "finished";
  }

  /** Fade out and forget the rest. */
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
    return {
      state: this.#state,
      played_samples: this.#resampler.consumed,
      played_ms: (this.#resampler.consumed * 1000) / this.#inputRateHz,
      buffered_ms:
        this.#state === "finished"
          ? 0
          : ((this.#resampler.received - this.#resampler.consumed) * 1000) / this.#inputRateHz,
      underruns: this.#underruns,
      gap_total_ms: this.#gapTotalFrames * toMs,
      gap_worst_ms: this.#gapWorstFrames * toMs,
      gap_open_ms: this.#gapFrames * toMs,
      text_starvation_ms: this.#starvedFrames * toMs,
      cushion_ms: this.#cushion.ms,
    };
  }

  get #hasNews() {
    return this.#resampler.received > this.#receivedWhenDry;
  }

  #isReady() {
    const available = this.#resampler.available;
    if (available === 0) return false;
    return this.#released || this.#ended || available >= (this.#cushion.ms * this.#outputRateHz) / 1000;
  }

  #addGap(frames) {
    this.#gapFrames += frames;
    if (!this.#hasNews) this.#lateFrames += frames;
  }

  #resume() {
    this.#state = "playing";
    // The filter's look-ahead, set free by end(), is no late audio: without a new packet nobody had to wait.
    if (this.#started && this.#hasNews) this.#countGap();
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
    this.#cushion.underrun((this.#lateFrames * 1000) / this.#outputRateHz);
  }

  #render(out) {
    const available = this.#resampler.available;
    const written = this.#resampler.read(out);
    for (let i = 0; i < written; i++) {
      // Up or down by a step a sample; and down to nothing at the last one there is, wherever the last ascent began.
      const rise = this.#state === "stopping" ? -this.#fadeStep : this.#fadeStep;
      const ceiling = Math.min(1, (available - i - 1) * this.#fadeStep);
      this.#gain = Math.max(0, Math.min(this.#gain + rise, ceiling));
      out[i] *= this.#gain;
    }
    this.#cushion.calm((written * 1000) / this.#outputRateHz);
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
