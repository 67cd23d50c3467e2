// Listens for somebody who begins to speak, so that the voice can fall silent: barge-in.

import { CodedError } from "../errors.js";

const LOOK_EVERY_MS = 20;
const SAMPLES = 1024; // 21 ms at 48 kHz: no sound between two looks is missed

/** "denied", "not_found" or "unavailable". */
export class MicrophoneError extends CodedError {}

/** Decides from levels over time: speech is what stays above the threshold for `holdMs`.  Pure. */
export class SpeechOnset {
  #threshold;
  #holdMs;
  #restMs;
  #loudSinceMs = null;
  #quietSinceMs = null;
  #speaking = false;

  /** `threshold` is an RMS level, 0 to 1; `restMs` of quiet end the speech, so that the next one counts anew. */
  constructor({ threshold = 0.03, holdMs = 80, restMs = 400 } = {}) {
    this.#threshold = threshold;
    this.#holdMs = holdMs;
    this.#restMs = restMs;
  }

  /** Whether speech begins with this level.  Levels that are no numbers count as quiet. */
  push(level, atMs) {
    if (level >= this.#threshold) {
      this.#quietSinceMs = null;
      this.#loudSinceMs ??= atMs;
      if (this.#speaking || atMs - this.#loudSinceMs < this.#holdMs) return false;
      this.#speaking = true;
      return true;
    }
    this.#loudSinceMs = null; // a click or a cough is shorter than the hold
    this.#quietSinceMs ??= atMs;
    if (atMs - this.#quietSinceMs >= this.#restMs) this.#speaking = false;
    return false;
  }
}

/** Root mean square of samples in [-1, 1]. */
export function rms(samples) {
  let squares = 0;
  for (const sample of samples) squares += sample * sample;
  return samples.length === 0 ? 0 : Math.sqrt(squares / samples.length);
}

export class MicrophoneLevel {
  #onlevel;
  #onspeech;
  #onset;
  #media;
  #openContext;
  #stream = null;
  #context = null;
  #timer = null;
  #starts = 0; // numbers the calls of start, so that a permission that comes after stop() opens nothing

  /** `onlevel(rms)` 50 times a second, `onspeech()` when somebody begins. */
  constructor({
    onlevel = () => {},
    onspeech,
    onset = new SpeechOnset(),
    media = globalThis.navigator?.mediaDevices,
    openContext = () => new AudioContext(),
  }) {
    this.#onlevel = onlevel;
    this.#onspeech = onspeech;
    this.#onset = onset;
    this.#media = media;
    this.#openContext = openContext;
  }

  /** Ask for the microphone.  Rejects with MicrophoneError; resolves to false where stop() was called meanwhile. */
  async start() {
    this.stop();
    if (this.#media?.getUserMedia === undefined) {
      throw new MicrophoneError("unavailable", "this browser gives no microphone to this page: it needs https or localhost");
    }
    const ours = this.#starts;
    // The voice from our own loudspeaker must not count as somebody who speaks.
    const audio = { echoCancellation: true, noiseSuppression: true };
    const stream = await this.#media.getUserMedia({ audio }).catch((error) => Promise.reject(inWords(error)));
    if (ours !== this.#starts) {
      release(stream);
      return false;
    }
    this.#stream = stream;
    try {
      this.#listen(stream);
    } catch (error) {
      this.stop();
      throw new MicrophoneError("unavailable", `the microphone could not be read: ${error.message}`, { cause: error });
    }
    return true;
  }

  /** Give the microphone back. */
  stop() {
    this.#starts += 1;
    clearInterval(this.#timer);
    this.#timer = null;
    if (this.#stream !== null) release(this.#stream);
    this.#stream = null;
    this.#context?.close().catch(() => {}); // closed already: there is nothing left to free
    this.#context = null;
  }

  #listen(stream) {
    this.#context = this.#openContext();
    const analyser = this.#context.createAnalyser();
    analyser.fftSize = SAMPLES;
    this.#context.createMediaStreamSource(stream).connect(analyser);
    const samples = new Float32Array(SAMPLES);
    this.#timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      const level = rms(samples);
      this.#onlevel(level);
      if (this.#onset.push(level, performance.now())) this.#onspeech();
    }, LOOK_EVERY_MS);
  }
}

function release(stream) {
  for (const track of stream.getTracks()) track.stop();
}

const REFUSALS = {
  NotAllowedError: ["denied", "the microphone was not allowed"],
  SecurityError: ["denied", "the microphone was not allowed"],
  NotFoundError: ["not_found", "there is no microphone"],
};

function inWords(error) {
  const [code, words] = REFUSALS[error.name] ?? ["unavailable", `the microphone could not be opened: ${error.message}`];
  return new MicrophoneError(code, words, { cause: error });
}
