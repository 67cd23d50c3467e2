// Audio decoders to 16-bit samples: PCM, G.711 µ-law, and Opus with the browser's decoder (WebCodecs).
//
// Sample counts are exact: the pre-skip and padding of an Opus stream (protocol.md) are removed here.

import { CodedError } from "../errors.js";

/** "unsupported_format" or "bad_audio". */
export class FormatError extends CodedError {}

const OPUS_RATE_HZ = 48000; // the output rate of every Opus decoder (RFC 6716)
const OPUS_PACKET_US = 20_000;
const OPUS_CONFIG = { codec: "opus", sampleRate: OPUS_RATE_HZ, numberOfChannels: 1 };

/** The values of `response_format` that this browser can play. */
export async function supportedFormats() {
  const simple = ["pcm", "pcm_mulaw"];
  if (typeof AudioDecoder === "undefined") return simple;
  const { supported } = await AudioDecoder.isConfigSupported(OPUS_CONFIG).catch(() => ({ supported: false }));
  return supported ? [...simple, "opus"] : simple;
}

/** The output rate of a decoder. */
export function decodedRateHz(format, sampleRateHz) {
  return format === "opus" ? OPUS_RATE_HZ : sampleRateHz;
}

/**
 * A decoder for one sentence: `push(bytes)`, `flush({samples})` -> a promise, `close()`.  `onpcm` gets Int16Arrays.
 * `preSkip` and `samples` count at `sampleRateHz`, as in the protocol.  Throws FormatError for an unknown format.
 */
export function makeDecoder(format, { sampleRateHz, preSkip = 0, onpcm, onerror }) {
  switch (format) {
    case "pcm":
      return tableDecoder(pcmSamples, onpcm, onerror);
    case "pcm_mulaw":
      return tableDecoder(mulawSamples, onpcm, onerror);
    case "opus":
      if (typeof AudioDecoder === "undefined") break;
      return new OpusDecoder({ scale: OPUS_RATE_HZ / sampleRateHz, preSkip, onpcm, onerror });
  }
  throw new FormatError("unsupported_format", `this browser cannot play ${format}`);
}

function tableDecoder(decode, onpcm, onerror) {
  let closed = false;
  const close = () => {
    closed = true;
  };
  const push = (bytes) => {
    if (closed) return;
    try {
      onpcm(decode(bytes));
    } catch (error) {
      if (!(error instanceof FormatError)) throw error; // thrown by `onpcm`
      close();
      onerror(error);
    }
  };
  return { push, flush: async () => {}, close };
}

function pcmSamples(bytes) {
  if (bytes.byteLength % 2 !== 0) throw new FormatError("bad_audio", "the server sent half a sample");
  return new Int16Array(bytes.slice().buffer); // a copy: aligned, and transferable to another thread
}

function mulawSamples(bytes) {
  return Int16Array.from(bytes, (code) => MULAW[code]);
}

/** G.711, table 2: all bits inverted; a sign, 3 bits of exponent, 4 of mantissa, bias 132. */
const MULAW = Int16Array.from({ length: 256 }, (_, code) => {
  const bits = ~code & 0xff;
  const magnitude = ((((bits & 15) << 3) + 132) << ((bits >> 4) & 7)) - 132;
  return bits & 0x80 ? -magnitude : magnitude;
});

class OpusDecoder {
  #decoder;
  #skip; // samples of pre-skip still to drop
  #scale;
  #outputSamples = 0;
  #pending = null; // the last packet's samples: the next packet, or flush, shows whether they end in padding
  #packets = 0;
  #onpcm;
  #onerror;

  constructor({ scale, preSkip, onpcm, onerror }) {
    this.#scale = scale;
    this.#skip = Math.round(preSkip * scale);
    this.#onpcm = onpcm;
    this.#onerror = onerror;
    this.#decoder = new AudioDecoder({
      output: (frame) => this.#receive(frame),
      error: (error) => this.#fail(error),
    });
    this.#decoder.configure(OPUS_CONFIG);
  }

  push(bytes) {
    if (this.#decoder.state !== "configured") return;
    const timestamp = this.#packets++ * OPUS_PACKET_US;
    try {
      this.#decoder.decode(new EncodedAudioChunk({ type: "key", timestamp, duration: OPUS_PACKET_US, data: bytes }));
    } catch (error) {
      this.#fail(error);
    }
  }

  /** Resolves after the last output.  The output is exactly `samples` long where that is known. */
  async flush({ samples } = {}) {
    if (this.#decoder.state === "configured") {
      try {
        await this.#decoder.flush();
      } catch (error) {
        if (error.name === "AbortError") return; // closed meanwhile
        this.#fail(error);
        return;
      }
    }
    if (this.#pending === null) return;
    const missing = samples === undefined ? Infinity : Math.round(samples * this.#scale) - this.#outputSamples;
    this.#output(this.#pending.subarray(0, Math.max(0, Math.min(this.#pending.length, missing))));
    this.#pending = null;
  }

  close() {
    this.#pending = null;
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }

  #receive(frame) {
    const floats = new Float32Array(frame.numberOfFrames);
    frame.copyTo(floats, { planeIndex: 0, format: "f32-planar" });
    frame.close();
    const skipped = Math.min(this.#skip, floats.length);
    this.#skip -= skipped;
    if (this.#pending !== null) this.#output(this.#pending);
    this.#pending = Int16Array.from(floats.subarray(skipped), pcm16);
  }

  #output(samples) {
    if (samples.length === 0) return;
    this.#outputSamples += samples.length;
    this.#onpcm(samples);
  }

  #fail(error) {
    this.close();
    this.#onerror(new FormatError("bad_audio", `the audio could not be decoded: ${error.message}`, { cause: error }));
  }
}

function pcm16(value) {
  return Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
}

/** Decodes the sentences of a session, each with its own decoder, and keeps their order. */
export class SpeechDecoder {
  #onpcm;
  #onend;
  #onerror;
  #sentences = []; // {start, decoder, events, done}, oldest first: only the first emits at once

  /** `onpcm(samples, start)`; `onend(start, done)` after a sentence's last sample; `onerror(error, start)`. */
  constructor({ onpcm, onend = () => {}, onerror }) {
    this.#onpcm = onpcm;
    this.#onend = onend;
    this.#onerror = onerror;
  }

  /** Begin a sentence with its `audio.start` message.  Throws FormatError. */
  begin(start) {
    const sentence = { start, decoder: null, events: [], done: null };
    sentence.decoder = makeDecoder(start.format, {
      sampleRateHz: start.sample_rate,
      preSkip: start.pre_skip ?? 0,
      onpcm: (samples) => this.#emit(sentence, () => this.#onpcm(samples, start)),
      onerror: (error) => this.#emit(sentence, () => this.#onerror(error, start)),
    });
    this.#sentences.push(sentence);
  }

  /** Add bytes to the newest sentence. */
  push(bytes) {
    this.#sentences.at(-1)?.decoder.push(bytes);
  }

  /** End the newest sentence with its `audio.done` message.  Resolves when its last sample is decoded. */
  async end(done) {
    const sentence = this.#sentences.at(-1);
    if (sentence === undefined) return;
    await sentence.decoder.flush({ samples: done.samples });
    sentence.decoder.close();
    this.#emit(sentence, () => this.#onend(sentence.start, done));
    sentence.done = done;
    this.#advance();
  }

  /** Drop all sentences. */
  clear() {
    for (const { decoder } of this.#sentences.splice(0)) decoder.close();
  }

  #emit(sentence, event) {
    if (sentence === this.#sentences[0]) event();
    else sentence.events.push(event); // never emitted if cleared meanwhile
  }

  #advance() {
    while (this.#sentences.length > 0 && this.#sentences[0].done !== null) {
      this.#sentences.shift();
      const next = this.#sentences[0];
      if (next === undefined) return;
      for (const event of next.events.splice(0)) event();
    }
  }
}
