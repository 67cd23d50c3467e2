// From the wire's bytes to 16-bit samples: PCM, G.711 mu-law, and Opus through the browser's own decoder (WebCodecs).
//
// Sample counts are exact: an Opus stream's pre-skip and padding (protocol.md) are cut off here.

import { CodedError } from "../errors.js";

/** "unsupported_format" or "bad_audio". */
export class FormatError extends CodedError {}

const OPUS_RATE_HZ = 48000; // what decoders of Opus give, whatever went in (RFC 6716)
const OPUS_PACKET_US = 20_000;
const OPUS_CONFIG = { codec: "opus", sampleRate: OPUS_RATE_HZ, numberOfChannels: 1 };

/** Of `session.config`'s response_format, those that this browser can play. */
export async function supportedFormats() {
  const simple = ["pcm", "pcm_mulaw"];
  if (typeof AudioDecoder === "undefined") return simple;
  const { supported } = await AudioDecoder.isConfigSupported(OPUS_CONFIG).catch(() => ({ supported: false }));
  return supported ? [...simple, "opus"] : simple;
}

/** The rate of what a decoder gives, in Hz. */
export function decodedRateHz(format, sampleRateHz) {
  return format === "opus" ? OPUS_RATE_HZ : sampleRateHz;
}

/**
 * A decoder for one sentence: `push(bytes)`, `flush({samples})` -> a promise, `close()`.  `onpcm` gets Int16Arrays.
 * `preSkip` and `samples` are those of the wire, at `sampleRateHz`.  Throws FormatError for a format it does not know.
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
      if (!(error instanceof FormatError)) throw error; // a listener's own
      close();
      onerror(error);
    }
  };
  return { push, flush: async () => {}, close };
}

function pcmSamples(bytes) {
  if (bytes.byteLength % 2 !== 0) throw new FormatError("bad_audio", "the server sent half a sample");
  return new Int16Array(bytes.slice().buffer); // a copy: aligned, and free to move to another thread
}

function mulawSamples(bytes) {
  return Int16Array.from(bytes, (code) => MULAW[code]);
}

/** G.711, table 2: all bits inverted; a sign, three bits of exponent, four of mantissa, and a bias of 132. */
const MULAW = Int16Array.from({ length: 256 }, (_, code) => {
  const bits = ~code & 0xff;
  const magnitude = ((((bits & 15) << 3) + 132) << ((bits >> 4) & 7)) - 132;
  return bits & 0x80 ? -magnitude : magnitude;
});

class OpusDecoder {
  #decoder;
  #skip; // samples of delay that are still to be dropped
  #scale;
  #given = 0;
  #last = null; // held back: whether it ends in padding is known only when the next one comes, or the end
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

  /** Everything is given when this resolves: exactly `samples` (at the wire's rate), where that is known. */
  async flush({ samples } = {}) {
    if (this.#decoder.state === "configured") {
      try {
        await this.#decoder.flush();
      } catch (error) {
        if (error.name === "AbortError") return; // closed meanwhile: nobody listens any more
        this.#fail(error);
        return;
      }
    }
    if (this.#last === null) return;
    const due = samples === undefined ? Infinity : Math.round(samples * this.#scale) - this.#given;
    this.#give(this.#last.subarray(0, Math.max(0, Math.min(this.#last.length, due))));
    this.#last = null;
  }

  close() {
    this.#last = null;
    if (this.#decoder.state !== "closed") this.#decoder.close();
  }

  #receive(frame) {
    const floats = new Float32Array(frame.numberOfFrames);
    frame.copyTo(floats, { planeIndex: 0, format: "f32-planar" });
    frame.close();
    const skipped = Math.min(this.#skip, floats.length);
    this.#skip -= skipped;
    if (this.#last !== null) this.#give(this.#last);
    this.#last = Int16Array.from(floats.subarray(skipped), pcm16);
  }

  #give(samples) {
    if (samples.length === 0) return;
    this.#given += samples.length;
    this.#onpcm(samples);
  }

  #fail(error) {
    this.close();
    this.#onerror(new FormatError("bad_audio", `the sound could not be decoded: ${error.message}`, { cause: error }));
  }
}

function pcm16(value) {
  return Math.max(-32768, Math.min(32767, Math.round(value * 32768)));
}

/** Decodes a session's sentences, each with a decoder of its own, and keeps their order. */
export class SpeechDecoder {
  #onpcm;
  #onend;
  #onerror;
  #sentences = []; // {start, decoder, events, done}, oldest first: only the first one's samples go out at once

  /** `onpcm(samples, start)`; `onend(start, done)` behind a sentence's last sample; `onerror(error, start)`. */
  constructor({ onpcm, onend = () => {}, onerror }) {
    this.#onpcm = onpcm;
    this.#onend = onend;
    this.#onerror = onerror;
  }

  /** With an `audio.start` message.  Throws FormatError. */
  begin(start) {
    const sentence = { start, decoder: null, events: [], done: null };
    sentence.decoder = makeDecoder(start.format, {
      sampleRateHz: start.sample_rate,
      preSkip: start.pre_skip ?? 0,
      onpcm: (samples) => this.#tell(sentence, () => this.#onpcm(samples, start)),
      onerror: (error) => this.#tell(sentence, () => this.#onerror(error, start)),
    });
    this.#sentences.push(sentence);
  }

  /** Bytes of the sentence that began last. */
  push(bytes) {
    this.#sentences.at(-1)?.decoder.push(bytes);
  }

  /** With the sentence's `audio.done` message.  Resolves when its last sample is decoded. */
  async end(done) {
    const sentence = this.#sentences.at(-1);
    if (sentence === undefined) return;
    await sentence.decoder.flush({ samples: done.samples });
    sentence.decoder.close();
    this.#tell(sentence, () => this.#onend(sentence.start, done));
    sentence.done = done;
    this.#advance();
  }

  /** Forget what is being decoded. */
  clear() {
    for (const { decoder } of this.#sentences.splice(0)) decoder.close();
  }

  #tell(sentence, event) {
    if (sentence === this.#sentences[0]) event();
    else sentence.events.push(event); // unheard for ever where it was cleared meanwhile
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
