// WAV file writer: a header of 44 bytes and 16-bit mono PCM.

const HEADER_BYTES = 44;
const BYTES_PER_SAMPLE = 2;

/** Int16Array chunks as a Blob. */
export function wavFile(chunks, sampleRateHz) {
  const dataBytes = chunks.reduce((sum, chunk) => sum + chunk.length * BYTES_PER_SAMPLE, 0);
  const file = new DataView(new ArrayBuffer(HEADER_BYTES + dataBytes));
  const ascii = (at, word) => [...word].forEach((letter, i) => file.setUint8(at + i, letter.charCodeAt(0)));
  ascii(0, "RIFF");
  file.setUint32(4, HEADER_BYTES - 8 + dataBytes, true);
  ascii(8, "WAVEfmt ");
  file.setUint32(16, 16, true); // bytes of the format that follow
  file.setUint16(20, 1, true); // PCM
  file.setUint16(22, 1, true); // mono
  file.setUint32(24, sampleRateHz, true);
  file.setUint32(28, sampleRateHz * BYTES_PER_SAMPLE, true);
  file.setUint16(32, BYTES_PER_SAMPLE, true);
  file.setUint16(34, 8 * BYTES_PER_SAMPLE, true);
  ascii(36, "data");
  file.setUint32(40, dataBytes, true);
  let at = HEADER_BYTES;
  for (const chunk of chunks) {
    for (const sample of chunk) {
      file.setInt16(at, sample, true);
      at += BYTES_PER_SAMPLE;
    }
  }
  return new Blob([file.buffer], { type: "audio/wav" });
}
