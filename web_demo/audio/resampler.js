// Resampler from the stream's rate to the device's, continuous across packets.
//
// A polyphase windowed-sinc filter at the exact ratio `up / down` of the two rates (R. E. Crochiere and
// L. R. Rabiner, "Multirate Digital Signal Processing", 1983).  Positions are integers, so nothing drifts: n input
// samples give exactly ceil(n * up / down) output samples, for any division into packets.
// At equal rates the filter is a single 1, and the output equals the input bit for bit.

const HALF_TAPS = 16;
const TAPS = 2 * HALF_TAPS;
const KAISER_BETA = 7; // about 70 dB of image rejection

export class Resampler {
  #up;
  #down;
  #kernels;
  #packets = []; // Int16Array, oldest first
  #packetOffset = 0;
  #received = 0; // input samples pushed
  #fed = 0; // input samples (or padding) that have entered the window
  #window = new Float32Array(2 * TAPS); // each sample is written twice, so that any TAPS in a row are contiguous
  #finished = false;
  #base = 0; // the next output lies between input samples base and base + 1 …
  #phase = 0; // … at the fraction phase / up
  #produced = 0;

  constructor(inputRateHz, outputRateHz) {
    if (!(inputRateHz > 0 && outputRateHz > 0)) {
      throw new RangeError(`sample rates must be positive, got ${inputRateHz} and ${outputRateHz}`);
    }
    const divisor = gcd(inputRateHz, outputRateHz);
    this.#up = outputRateHz / divisor;
    this.#down = inputRateHz / divisor;
    this.#kernels = designKernels(this.#up, this.#down);
  }

  /** Input samples that have been pushed. */
  get received() {
    return this.#received;
  }

  /** Input samples before the next output sample. */
  get consumed() {
    return Math.min(this.#base, this.#received);
  }

  /** Output samples that `read` can return now. */
  get available() {
    const settled = this.#finished ? this.#received : this.#received - HALF_TAPS; // the filter looks ahead
    return Math.max(0, Math.ceil((settled * this.#up) / this.#down) - this.#produced);
  }

  /** Add s16 samples.  The array is kept, not copied. */
  push(samples) {
    if (this.#finished) throw new Error("push after finish");
    if (samples.length === 0) return;
    this.#packets.push(samples);
    this.#received += samples.length;
  }

  /** End the input: silence fills the look-ahead, and the last samples become available. */
  finish() {
    this.#finished = true;
  }

  /** Write up to `count` samples in [-1, 1] to the start of `out`; returns how many. */
  read(out, count = out.length) {
    const n = Math.min(count, this.available);
    for (let i = 0; i < n; i++) {
      const needed = this.#base + HALF_TAPS + 1;
      while (this.#fed < needed) this.#shiftIn();
      const kernel = this.#phase * TAPS;
      const start = this.#fed % TAPS;
      let sum = 0;
      for (let k = 0; k < TAPS; k++) sum += this.#window[start + k] * this.#kernels[kernel + k];
      out[i] = sum;
      this.#phase += this.#down;
      const steps = Math.floor(this.#phase / this.#up);
      this.#base += steps;
      this.#phase -= steps * this.#up;
    }
    this.#produced += n;
    return n;
  }

  #shiftIn() {
    let sample = 0;
    if (this.#packets.length > 0) {
      const packet = this.#packets[0];
      sample = packet[this.#packetOffset++] / 32768;
      if (this.#packetOffset === packet.length) {
        this.#packets.shift();
        this.#packetOffset = 0;
      }
    }
    const slot = this.#fed++ % TAPS;
    this.#window[slot] = sample;
    this.#window[slot + TAPS] = sample;
  }
}

function gcd(a, b) {
  return b === 0 ? a : gcd(b, a % b);
}

/** One row of TAPS coefficients for each of the `up` phases. */
function designKernels(up, down) {
  const passband = Math.min(1, up / down); // of the input's Nyquist frequency: no aliasing at a lower output rate
  const kernels = new Float32Array(up * TAPS);
  const row = new Float64Array(TAPS);
  for (let phase = 0; phase < up; phase++) {
    let sum = 0;
    for (let k = 0; k < TAPS; k++) {
      const distance = k - HALF_TAPS + 1 - phase / up;
      row[k] = sinc(passband * distance) * kaiser(distance / HALF_TAPS);
      sum += row[k];
    }
    for (let k = 0; k < TAPS; k++) kernels[phase * TAPS + k] = row[k] / sum; // every phase passes DC unchanged
  }
  return kernels;
}

function sinc(x) {
  if (x === 0) return 1;
  if (Number.isInteger(x)) return 0; // exactly: sin(pi * x) is not
  return Math.sin(Math.PI * x) / (Math.PI * x);
}

function kaiser(x) {
  return Math.abs(x) > 1 ? 0 : besselI0(KAISER_BETA * Math.sqrt(1 - x * x)) / besselI0(KAISER_BETA);
}

function besselI0(x) {
  let sum = 1;
  let term = 1;
  for (let k = 1; term > sum * 1e-12; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}
