// Playback of samples as they arrive, one piece directly after the other.

const START_S = 0.05; // the first piece waits for so long, so that the next is scheduled in time

export class SampleQueue {
  #context;
  #rate;
  #end = 0;
  #sources = new Set();

  constructor(context, rate) {
    this.#context = context;
    this.#rate = rate;
  }

  push(samples) {
    const buffer = this.#context.createBuffer(1, samples.length, this.#rate);
    buffer.copyToChannel(samples, 0);
    const source = this.#context.createBufferSource();
    source.buffer = buffer;
    source.connect(this.#context.destination);
    source.onended = () => this.#sources.delete(source);
    const begin = Math.max(this.#end, this.#context.currentTime + (this.#end === 0 ? START_S : 0));
    source.start(begin);
    this.#sources.add(source);
    this.#end = begin + buffer.duration;
  }

  stop() {
    for (const source of this.#sources) source.stop();
    this.#sources.clear();
    this.#end = 0;
  }
}
