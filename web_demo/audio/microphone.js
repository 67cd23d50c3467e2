// Microphone level and speech onset detection, for barge-in.

import { CodedError } from "../errors.js";

const SAMPLE_EVERY_MS = 20;
const SAMPLES = 1024; // 21 ms at 48 kHz: longer than the interval, so no sample is missed

/** "denied", "not_found" or "unavailable". */
export class MicrophoneError extends CodedError {}

/** Speech onset: a level above the threshold for `holdMs`.  Pure. */
export class SpeechOnset {
  #threshold;
  #holdMs;
  #restMs;
  #loudSinceMs = null;
  #quietSinceMs = null;
  #speaking = false;

  /** `threshold` is an RMS level, 0 to 1; after `restMs` of quiet the next onset counts again. */
  constructor({ threshold = 0.03, holdMs = 80, restMs = 400 } = {}) {
    this.#threshold = threshold;
    this.#holdMs = holdMs;
    this.#restMs = restMs;
  }

  /** Whether speech begins with this level.  NaN counts as quiet. */
  push(level, atMs) {
    if (level >= this.#threshold) {
      this.#quietSinceMs = null;
      this.#loudSinceMs ??= atMs;
      if (this.#speaking || atMs - this.#loudSinceMs < this.#holdMs) return false;
      this.#speaking = true;
      return true;
    }
    this.#loudSinceMs = null; // a click is shorter than `holdMs`
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
  #startCount = 0; // so that a permission granted after stop() opens nothing

  /** Calls `onlevel(rms)` 50 times a second and `onspeech()` at each onset. */
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

  /** Open the microphone.  Rejects with MicrophoneError; resolves to false if stop() was called meanwhile. */
  async start() {
    this.stop();
    if (this.#media?.getUserMedia === undefined) {
      throw new MicrophoneError("unavailable", "this browser allows the microphone only over https or on localhost");
    }
    const count = this.#startCount;
    // Our own loudspeaker must not trigger an onset.
    const audio = { echoCancellation: true, noiseSuppression: true };
    const stream = await this.#media.getUserMedia({ audio }).catch((error) => Promise.reject(microphoneError(error)));
    if (count !== this.#startCount) {
      release(stream);
      return false;
    }
    this.#stream = stream;
    try {
      this.#analyse(stream);
    } catch (error) {
      this.stop();
      throw new MicrophoneError("unavailable", `the microphone could not be read: ${error.message}`, { cause: error });
    }
    return true;
  }

  /** Release the microphone. */
  stop() {
    this.#startCount += 1;
    clearInterval(this.#timer);
    this.#timer = null;
    if (this.#stream !== null) release(this.#stream);
    this.#stream = null;
    this.#context?.close().catch(() => {}); // already closed
    this.#context = null;
  }

  #analyse(stream) {
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
    }, SAMPLE_EVERY_MS);
  }
}

function release(stream) {
  for (const each of stream.getTracks()) each.stop();
}

const REFUSALS = {
  NotAllowedError: ["denied", "access to the microphone was denied"],
  SecurityError: ["denied", "access to the microphone was denied"],
  NotFoundError: ["not_found", "there is no microphone"],
};

function microphoneError(error) {
  const [code, message] = REFUSALS[error.name] ?? ["unavailable", `the microphone could not be opened: ${error.message}`];
  return new MicrophoneError(code, message, { cause: error });
}
