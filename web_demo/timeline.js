// Which sentence is being *heard*?  Audio arrives long before its turn, so the playhead decides, not the socket.

export class SentenceTimeline {
  #sentences = []; // {index, text, start, end, complete, error}: positions in samples of the utterance
  #samples = 0;

  get sentences() {
    return this.#sentences;
  }

  get samples() {
    return this.#samples;
  }

  /** Audio of a new sentence follows. */
  begin(index, text) {
    const sentence = { index, text, start: this.#samples, end: this.#samples, complete: false, error: false };
    this.#sentences.push(sentence);
    return sentence;
  }

  add(samples) {
    this.#samples += samples;
    const current = this.#sentences.at(-1);
    if (current !== undefined) current.end = this.#samples;
  }

  finish(index, error = false) {
    const sentence = this.#sentences.find((each) => each.index === index);
    if (sentence === undefined) return;
    sentence.complete = true;
    sentence.error = error;
  }

  /** The position, in this.sentences, of the one under the playhead; -1 before the first sample and after the last. */
  at(playedSamples) {
    return this.#sentences.findIndex(
      (each) => playedSamples >= each.start && playedSamples < each.end && playedSamples > 0,
    );
  }

  /** What of each sentence lies behind the playhead, 0 to 1. */
  heard(playedSamples) {
    return this.#sentences.map(({ start, end }) =>
      end > start ? Math.min(1, Math.max(0, (playedSamples - start) / (end - start))) : 0,
    );
  }
}
