// Start and end of each sentence and word in the played audio: audio arrives long before it is played.
//
// Positions are samples of the utterance's audio; spans are code points of the text as it was sent.

export class SentenceTimeline {
  #sentences = []; // {index, span, start, end, complete, error, timings, words}
  #samples = 0;

  get sentences() {
    return this.#sentences;
  }

  get samples() {
    return this.#samples;
  }

  /** Begin a sentence: its audio follows. */
  begin(index, span) {
    this.#sentences.push({
      index,
      span,
      start: this.#samples,
      end: this.#samples,
      complete: false,
      error: false,
      timings: null, // null: none received; else ok, unsupported, failed
      words: [], // {span, start, end}
    });
  }

  add(samples) {
    this.#samples += samples;
    const current = this.#sentences.at(-1);
    if (current !== undefined) current.end = this.#samples;
  }

  finish(index, error = false) {
    const sentence = this.#find(index);
    if (sentence === undefined) return;
    sentence.complete = true;
    sentence.error = error;
  }

  /** Add word times, in milliseconds from the sentence's first sample. */
  time(index, status, words, sampleRateHz) {
    const sentence = this.#find(index);
    if (sentence === undefined) return;
    sentence.timings = status;
    const at = (ms) => sentence.start + (ms / 1000) * sampleRateHz;
    sentence.words.push(
      ...words.map(({ start_ms, end_ms, text_span }) => ({ span: text_span, start: at(start_ms), end: at(end_ms) })),
    );
  }

  /** The played text in code points: up to the last finished word or, without word times, the last whole sentence. */
  playedText(playedSamples) {
    let upTo = 0;
    for (const { span, end, complete, words } of this.#sentences) {
      if (complete && playedSamples >= end && end > 0) upTo = Math.max(upTo, span[1]);
      for (const word of words) if (playedSamples >= word.end) upTo = Math.max(upTo, word.span[1]);
    }
    return upTo;
  }

  #find(index) {
    return this.#sentences.find((each) => each.index === index);
  }
}
