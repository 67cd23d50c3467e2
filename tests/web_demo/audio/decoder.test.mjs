// Decoders: PCM, µ-law by the table of G.711, and Opus with a fake of the browser's decoder.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { FormatError, makeDecoder, SpeechDecoder, supportedFormats } from "../../../web_demo/audio/decoder.js";

afterEach(() => {
  delete globalThis.AudioDecoder;
  delete globalThis.EncodedAudioChunk;
});

const settle = () => new Promise((resolve) => setImmediate(resolve));
const unexpected = (error) => assert.fail(error);

function decode(format, ...frames) {
  const samples = [];
  const decoder = makeDecoder(format, { sampleRateHz: 24000, onpcm: (pcm) => samples.push(...pcm), onerror: unexpected });
  for (const frame of frames) decoder.push(Uint8Array.from(frame));
  decoder.close();
  return samples;
}

test("pcm is 16 bits, little-endian, at any memory alignment", () => {
  assert.deepEqual(decode("pcm", [1, 0, 0xff, 0xff, 0x00, 0x80]), [1, -1, -32768]);
  const samples = [];
  const decoder = makeDecoder("pcm", { sampleRateHz: 24000, onpcm: (pcm) => samples.push(...pcm), onerror: unexpected });
  decoder.push(new Uint8Array(Uint8Array.of(9, 2, 0).buffer, 1)); // an odd address
  assert.deepEqual(samples, [2]);
});

test("pcm samples are a copy, so their memory can be transferred", () => {
  const bytes = Uint8Array.of(1, 0);
  makeDecoder("pcm", { sampleRateHz: 24000, onpcm: (pcm) => (pcm[0] = 7), onerror: unexpected }).push(bytes);
  assert.deepEqual([...bytes], [1, 0]);
});

test("half a sample is an error and closes the decoder", () => {
  const errors = [];
  const decoder = makeDecoder("pcm", { sampleRateHz: 24000, onpcm: unexpected, onerror: (error) => errors.push(error) });
  decoder.push(Uint8Array.of(1));
  decoder.push(Uint8Array.of(1, 0));
  assert.equal(errors.length, 1);
  assert.ok(errors[0] instanceof FormatError && errors[0].code === "bad_audio");
});

test("µ-law decodes to the values of G.711, with both signs", () => {
  // ITU-T G.711, table 2a: output values of the last code of each segment, times 4 for 16 bits.
  assert.deepEqual(decode("pcm_mulaw", [0xff, 0xfe, 0xf0, 0xef, 0x80, 0xc0]), [0, 8, 120, 132, 32124, 1884]);
  assert.deepEqual(decode("pcm_mulaw", [0x7f, 0x7e, 0x70, 0x6f, 0x00, 0x40]), [0, -8, -120, -132, -32124, -1884]);
  const all = decode("pcm_mulaw", Array.from({ length: 128 }, (_, i) => 255 - i));
  assert.ok(all.every((value, i) => i === 0 || value > all[i - 1]), "the order of the codes is the order of the levels");
});

test("an unknown format raises a FormatError", () => {
  for (const format of ["flac", "opus"]) {
    assert.throws(() => makeDecoder(format, { sampleRateHz: 24000 }), (error) => error instanceof FormatError && error.code === "unsupported_format");
  }
});

test("only formats that the browser can play are listed", async () => {
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw"]);
  globalThis.AudioDecoder = { isConfigSupported: async ({ codec, numberOfChannels }) => ({ supported: codec === "opus" && numberOfChannels === 1 }) };
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw", "opus"]);
  globalThis.AudioDecoder = { isConfigSupported: async () => ({ supported: false }) };
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw"]);
  globalThis.AudioDecoder = { isConfigSupported: () => Promise.reject(new TypeError()) };
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw"]);
});

// -- Opus ------------------------------------------------------------------------------------------------------------

const PACKET = 960; // 20 ms at 48 kHz

/** Outputs 960 increasing samples per packet, asynchronously; a packet that begins with 255 is invalid. */
class FakeAudioDecoder {
  static all = [];
  state = "unconfigured";
  #next = 1;
  #pending = Promise.resolve();
  #init;
  constructor(init) {
    this.#init = init;
    FakeAudioDecoder.all.push(this);
  }
  configure(config) {
    assert.equal(config.codec, "opus");
    this.state = "configured";
  }
  decode(chunk) {
    if (this.state !== "configured") throw new Error("InvalidStateError");
    this.#pending = this.#pending.then(settle).then(() => {
      if (this.state === "closed") return;
      if (chunk.data[0] === 255) {
        this.state = "closed";
        this.#init.error(new Error("bad packet"));
        return;
      }
      const first = this.#next;
      this.#next += PACKET;
      this.#init.output({
        numberOfFrames: PACKET,
        copyTo: (into) => into.forEach((_, i) => (into[i] = (first + i) / 32768)),
        close: () => (this.freed = (this.freed ?? 0) + 1),
      });
    });
  }
  async flush() {
    await this.#pending;
    if (this.state === "closed") throw Object.assign(new Error("closed"), { name: "AbortError" });
  }
  close() {
    this.state = "closed";
  }
}

function withOpus() {
  FakeAudioDecoder.all = [];
  globalThis.AudioDecoder = FakeAudioDecoder;
  globalThis.EncodedAudioChunk = class {
    constructor({ data, timestamp }) {
      Object.assign(this, { data, timestamp });
    }
  };
}

const packet = () => Uint8Array.of(1, 2, 3);

test("opus: pre-skip and padding are removed, so that the sample count is exact", async () => {
  withOpus();
  for (const [preSkip, samples, packets] of [[156, 1000, 3], [0, 960, 2], [312, 1, 1], [156, 324, 1]]) {
    const out = [];
    const decoder = makeDecoder("opus", { sampleRateHz: 24000, preSkip, onpcm: (pcm) => out.push(...pcm), onerror: unexpected });
    for (let i = 0; i < packets; i++) decoder.push(packet());
    await decoder.flush({ samples });
    assert.equal(out.length, 2 * samples);
    assert.deepEqual(out, Array.from({ length: 2 * samples }, (_, i) => 2 * preSkip + 1 + i));
    decoder.close();
  }
  assert.ok(FakeAudioDecoder.all.every(({ state, freed }) => state === "closed" && freed > 0));
});

test("opus: without a sample count all decoded samples are output", async () => {
  withOpus();
  const out = [];
  const decoder = makeDecoder("opus", { sampleRateHz: 48000, preSkip: 100, onpcm: (pcm) => out.push(...pcm), onerror: unexpected });
  decoder.push(packet());
  decoder.push(packet());
  await decoder.flush();
  assert.equal(out.length, 2 * PACKET - 100);
});

test("opus: an invalid packet is one error, and later packets are dropped", async () => {
  withOpus();
  const errors = [];
  const decoder = makeDecoder("opus", { sampleRateHz: 24000, onpcm: () => {}, onerror: (error) => errors.push(error) });
  decoder.push(Uint8Array.of(255));
  await settle();
  await settle();
  decoder.push(packet());
  await decoder.flush({ samples: 480 });
  assert.deepEqual(errors.map(({ code }) => code), ["bad_audio"]);
});

// -- Sentences in order ----------------------------------------------------------------------------------------------

const start = (sentence_index, format = "opus") => ({ sentence_index, format, sample_rate: 24000, pre_skip: 0 });
const done = (samples) => ({ reason: "complete", samples });

function recordingDecoder() {
  const events = [];
  const decoder = new SpeechDecoder({
    onpcm: (samples, { sentence_index }) => events.push(`${sentence_index}: ${samples.length}`),
    onend: ({ sentence_index }) => events.push(`${sentence_index} ends`),
    onerror: (error, { sentence_index }) => events.push(`${sentence_index}: ${error.code}`),
  });
  return { decoder, events };
}

test("sentences are output in order, even if the next one is decoded first", async () => {
  withOpus();
  const { decoder, events } = recordingDecoder();
  decoder.begin(start(0));
  for (let i = 0; i < 3; i++) decoder.push(packet());
  const first = decoder.end(done(1400));
  decoder.begin(start(1, "pcm")); // decoded at once, long before the Opus is
  decoder.push(new Uint8Array(40));
  const second = decoder.end(done(20));
  await Promise.all([first, second]);
  assert.deepEqual(events, ["0: 960", "0: 960", "0: 880", "0 ends", "1: 20", "1 ends"]);
  assert.ok(FakeAudioDecoder.all.every(({ state }) => state === "closed"));
});

test("a cancelled sentence, or one without a sample count, is output as far as it was received", async () => {
  withOpus();
  for (const end of [{ reason: "cancelled", samples: 100_000 }, { reason: "complete" }]) {
    const { decoder, events } = recordingDecoder();
    decoder.begin(start(0));
    decoder.push(packet());
    await decoder.end(end);
    assert.deepEqual(events, ["0: 960", "0 ends"]);
  }
});

test("clear closes the browser's decoder of an unfinished sentence", () => {
  withOpus();
  const { decoder } = recordingDecoder();
  decoder.begin(start(0));
  decoder.clear();
  assert.equal(FakeAudioDecoder.all[0].state, "closed");
});

test("clear drops all sentences, including the one being decoded", async () => {
  withOpus();
  const { decoder, events } = recordingDecoder();
  decoder.begin(start(0));
  decoder.push(packet());
  const ended = decoder.end(done(480));
  decoder.clear();
  await ended;
  decoder.push(packet()); // of a dropped sentence
  decoder.begin(start(0, "pcm"));
  decoder.push(new Uint8Array(4));
  assert.deepEqual(events, ["0: 2"]);
  assert.equal(FakeAudioDecoder.all[0].state, "closed");
});

test("a sentence that cannot be decoded does not block the next one", async () => {
  withOpus();
  const { decoder, events } = recordingDecoder();
  decoder.begin(start(0));
  decoder.push(Uint8Array.of(255));
  await decoder.end(done(960));
  decoder.begin(start(1, "pcm"));
  decoder.push(new Uint8Array(4));
  assert.deepEqual(events, ["0: bad_audio", "0 ends", "1: 2"]);
});
