// Chat completions: messages from text and files, and the pieces of a streamed answer.

/** The parts of a user's message: its text, then `{type, dataUrl}` of each file.  `type` is a MIME type. */
export function partsOf(text, files) {
  const parts = text.trim() === "" ? [] : [{ type: "text", text }];
  for (const { type, dataUrl } of files) {
    if (type.startsWith("image/")) parts.push({ type: "image_url", image_url: { url: dataUrl } });
    else parts.push({ type: "audio_url", audio_url: { url: dataUrl } });
  }
  return parts;
}

/** The body of a request for a streamed answer, with audio as 16-bit PCM. */
export function requestOf(messages, { model, voice }) {
  const audio = { format: "pcm16", ...(voice && { voice }) };
  return { model, messages, modalities: ["text", "audio"], audio, stream: true };
}

/** Samples in [-1, 1] of base64 with 16-bit PCM. */
export function samplesOf(base64) {
  const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Float32Array.from({ length: bytes.length >> 1 }, (_, at) => view.getInt16(2 * at, true) / 32767);
}

/** Reads server-sent events, however they are divided. */
export class AnswerReader {
  /** Whether the answer is complete: without it the connection was broken. */
  isComplete = false;
  #rest = "";

  /** The pieces in `text`: {text}, {samples} or {error}, in order. */
  push(text) {
    const events = (this.#rest + text).split("\n\n");
    this.#rest = events.pop();
    return events.flatMap((event) => this.#pieces(event.replace(/^data: /, "")));
  }

  #pieces(data) {
    if (data === "[DONE]") {
      this.isComplete = true;
      return [];
    }
    const { error, choices = [] } = JSON.parse(data);
    if (error) return [{ error: error.message }];
    return choices.flatMap(({ delta: { content, audio } }) => [
      ...(content ? [{ text: content }] : []),
      ...(audio?.data ? [{ samples: samplesOf(audio.data) }] : []),
    ]);
  }
}
