// The header of a binary frame (protocol.md, "Frame header").  Of its fields we need whose sound it is: sentences and
// their frames come in order within a context.

const HEADER_BYTES = 16;
const VERSION = 1;

/** {bytes, contextNumber} of a received ArrayBuffer, null for one that cannot be read; no header, no number. */
export function readFrame(buffer, hasHeader) {
  if (!hasHeader) return { bytes: new Uint8Array(buffer), contextNumber: null };
  if (buffer.byteLength < HEADER_BYTES) return null;
  const view = new DataView(buffer);
  if (view.getUint8(0) !== VERSION) return null;
  return { bytes: new Uint8Array(buffer, HEADER_BYTES), contextNumber: view.getUint16(2, true) };
}
