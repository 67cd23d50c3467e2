// From bytes to samples: PCM, mu-law by G.711's table, and Opus by a stand-in for the browser's decoder.

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

test("pcm is 16 bits, little-endian, at any place in memory", () => {
  assert.deepEqual(decode("pcm", [1, 0, 0xff, 0xff, 0x00, 0x80]), [1, -1, -32768]);
  const samples = [];
  const decoder = makeDecoder("pcm", { sampleRateHz: 24000, onpcm: (pcm) => samples.push(...pcm), onerror: unexpected });
  decoder.push(new Uint8Array(Uint8Array.of(9, 2, 0).buffer, 1)); // not on an even address
  assert.deepEqual(samples, [2]);
});

test("pcm samples are the receiver's own: their memory may move away", () => {
  const bytes = Uint8Array.of(1, 0);
  makeDecoder("pcm", { sampleRateHz: 24000, onpcm: (pcm) => (pcm[0] = 7), onerror: unexpected }).push(bytes);
  assert.deepEqual([...bytes], [1, 0]);
});

test("half a sample is an error, and the decoder is closed", () => {
  const errors = [];
  const decoder = makeDecoder("pcm", { sampleRateHz: 24000, onpcm: unexpected, onerror: (error) => errors.push(error) });
  decoder.push(Uint8Array.of(1));
  decoder.push(Uint8Array.of(1, 0));
  assert.equal(errors.length, 1);
  assert.ok(errors[0] instanceof FormatError && errors[0].code === "bad_audio");
});

test("mu-law: G.711's decision values, and both signs alike", () => {
  // ITU-T G.711, table 2a: the outputs of codes 0x80, 0x8f, 0x9f … of each segment's last value, times 4 for 16 bits.
  assert.deepEqual(decode("pcm_mulaw", [0xff, 0xfe, 0xf0, 0xef, 0x80, 0xc0]), [0, 8, 120, 132, 32124, 1884]);
  assert.deepEqual(decode("pcm_mulaw", [0x7f, 0x7e, 0x70, 0x6f, 0x00, 0x40]), [0, -8, -120, -132, -32124, -1884]);
  const all = decode("pcm_mulaw", Array.from({ length: 128 }, (_, i) => 255 - i));
  assert.ok(all.every((value, i) => i === 0 || value > all[i - 1]), "louder codes are louder");
});

test("a format that no decoder is known for is a typed error", () => {
  for (const format of ["flac", "opus"]) {
    assert.throws(() => makeDecoder(format, { sampleRateHz: 24000 }), (error) => error instanceof FormatError && error.code === "unsupported_format");
  }
});

test("the formats that are offered are those that the browser can play", async () => {
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw"]);
  globalThis.AudioDecoder = { isConfigSupported: async ({ codec, numberOfChannels }) => ({ supported: codec === "opus" && numberOfChannels === 1 }) };
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw", "opus"]);
  globalThis.AudioDecoder = { isConfigSupported: async () => ({ supported: false }) };
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw"]);
  globalThis.AudioDecoder = { isConfigSupported: () => Promise.reject(new TypeError()) };
  assert.deepEqual(await supportedFormats(), ["pcm", "pcm_mulaw"]);
});

// -- Opus -------------------------------------------------------------------------------------------------------------

const PACKET = 960; // 20 ms at 48 kHz

/** Gives 960 samples a packet, counted on from 1, a moment later; a packet of one byte 255 cannot be decoded. */
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

test("opus: the pre-skip is dropped, and the padding, so that the count is exact", async () => {
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

test("opus: without a count all that was decoded comes out", async () => {
  withOpus();
  const out = [];
  const decoder = makeDecoder("opus", { sampleRateHz: 48000, preSkip: 100, onpcm: (pcm) => out.push(...pcm), onerror: unexpected });
  decoder.push(packet());
  decoder.push(packet());
  await decoder.flush();
  assert.equal(out.length, 2 * PACKET - 100);
});

test("opus: a packet that cannot be decoded is one error, and what follows is dropped", async () => {
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

// -- Sentences in order -----------------------------------------------------------------------------------------------

const start = (sentence_index, format = "opus") => ({ sentence_index, format, sample_rate: 24000, pre_skip: 0 });
const done = (samples) => ({ reason: "complete", samples });

function hearing() {
  const heard = [];
  const decoder = new SpeechDecoder({
    onpcm: (samples, { sentence_index }) => heard.push(`${sentence_index}: ${samples.length}`),
    onend: ({ sentence_index }) => heard.push(`${sentence_index} ends`),
    onerror: (error, { sentence_index }) => heard.push(`${sentence_index}: ${error.code}`),
  });
  return { decoder, heard };
}

test("sentences come out in order, though the next is begun before the last is decoded", async () => {
  withOpus();
  const { decoder, heard } = hearing();
  decoder.begin(start(0));
  for (let i = 0; i < 3; i++) decoder.push(packet());
  const first = decoder.end(done(1400));
  decoder.begin(start(1, "pcm")); // decoded at once, long before the Opus is
  decoder.push(new Uint8Array(40));
  const second = decoder.end(done(20));
  await Promise.all([first, second]);
  assert.deepEqual(heard, ["0: 960", "0: 960", "0: 880", "0 ends", "1: 20", "1 ends"]);
  assert.ok(FakeAudioDecoder.all.every(({ state }) => state === "closed"));
});

test("a sentence that was broken off is played as far as it came, one of an older server to its padding", async () => {
  withOpus();
  for (const end of [{ reason: "cancelled", samples: 100_000 }, { reason: "complete" }]) {
    const { decoder, heard } = hearing();
    decoder.begin(start(0));
    decoder.push(packet());
    await decoder.end(end);
    assert.deepEqual(heard, ["0: 960", "0 ends"]);
  }
});

test("clear frees the browser's decoder though the sentence never ends", () => {
  withOpus();
  const { decoder } = hearing();
  decoder.begin(start(0));
  decoder.clear();
  assert.equal(FakeAudioDecoder.all[0].state, "closed");
});

test("clear forgets everything, also what is being decoded", async () => {
  withOpus();
  const { decoder, heard } = hearing();
  decoder.begin(start(0));
  decoder.push(packet());
  const ended = decoder.end(done(480));
  decoder.clear();
  await ended;
  decoder.push(packet()); // of a sentence that was forgotten
  decoder.begin(start(0, "pcm"));
  decoder.push(new Uint8Array(4));
  assert.deepEqual(heard, ["0: 2"]);
  assert.equal(FakeAudioDecoder.all[0].state, "closed");
});

test("one sentence that cannot be decoded does not hold up the next", async () => {
  withOpus();
  const { decoder, heard } = hearing();
  decoder.begin(start(0));
  decoder.push(Uint8Array.of(255));
  await decoder.end(done(960));
  decoder.begin(start(1, "pcm"));
  decoder.push(new Uint8Array(4));
  assert.deepEqual(heard, ["0: bad_audio", "0 ends", "1: 2"]);
});
