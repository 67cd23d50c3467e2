// Draws the last ten seconds of the playout buffer: depth as a hill, packets as ticks, gaps in red.

const SPAN_S = 10;
const SCALES_S = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
const PAD = { left: 40, right: 10, top: 12, bottom: 26 };

export class BufferMeter {
  #canvas;
  #samples = []; // {atS, depthS, gap}
  #packets = []; // atS
  #running = false;
  #colours = {};
  #font = "12px sans-serif";
  #scaleS = SCALES_S[0];
  #calm = matchMedia("(prefers-reduced-motion: reduce)");
  #lastDrawnS = 0;

  constructor(canvas) {
    this.#canvas = canvas;
    new ResizeObserver(() => this.#draw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#readColours());
    matchMedia(`(resolution: ${devicePixelRatio}dppx)`).addEventListener("change", () => this.#draw());
    this.#readColours();
  }

  clear() {
    this.#samples = [];
    this.#packets = [];
    this.#draw();
  }

  packet() {
    this.#packets.push(nowS());
    this.#trim();
  }

  depth({ buffered_ms, gap_open_ms }) {
    this.#samples.push({ atS: nowS(), depthS: buffered_ms / 1000, gap: gap_open_ms > 0 });
    this.#trim();
    if (!this.#running) this.#draw(); // the fall to nothing after a stop
  }

  /** Scroll while something is going on; hold still otherwise. */
  set running(on) {
    if (on && !this.#running) requestAnimationFrame(() => this.#tick());
    this.#running = on;
  }

  #tick() {
    // Someone who asked for less motion gets a chart that steps, not one that slides.
    if (!this.#calm.matches || nowS() - this.#lastDrawnS > 0.5) this.#draw();
    if (this.#running) requestAnimationFrame(() => this.#tick());
  }

  #trim() {
    const oldestS = nowS() - SPAN_S - 1;
    while (this.#samples.length > 0 && this.#samples[0].atS < oldestS) this.#samples.shift();
    while (this.#packets.length > 0 && this.#packets[0] < oldestS) this.#packets.shift();
  }

  #readColours() {
    const style = getComputedStyle(this.#canvas);
    for (const name of ["ink-soft", "line", "accent", "accent-soft", "bad", "bad-soft"]) {
      this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    }
    this.#font = `12px ${style.fontFamily}`;
    this.#draw();
  }

  #draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (width === 0 || height === 0) return;
    const ratio = devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(height * ratio);
    const pen = this.#canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const atS = nowS();
    const area = {
      x: (whenS) => PAD.left + (width - PAD.left - PAD.right) * (1 - (atS - whenS) / SPAN_S),
      y: (depthS) => height - PAD.bottom - (height - PAD.top - PAD.bottom) * Math.min(1, depthS / this.#scaleS),
      left: PAD.left,
      right: width - PAD.right,
      top: PAD.top,
      floor: height - PAD.bottom,
    };
    this.#fitScale();
    this.#drawGrid(pen, area, atS);
    pen.save();
    pen.beginPath();
    pen.rect(area.left, 0, area.right - area.left, height);
    pen.clip();
    this.#drawGaps(pen, area);
    this.#drawDepth(pen, area);
    this.#drawPackets(pen, area);
    pen.restore();
    this.#lastDrawnS = atS;
  }

  #fitScale() {
    const deepestS = Math.max(0, ...this.#samples.map((sample) => sample.depthS));
    this.#scaleS = SCALES_S.find((scaleS) => scaleS >= deepestS * 1.1) ?? SCALES_S.at(-1);
  }

  #drawGrid(pen, area, atS) {
    pen.font = this.#font;
    pen.lineWidth = 1;
    pen.strokeStyle = this.#colours.line;
    pen.fillStyle = this.#colours["ink-soft"];
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const part of [0, 0.5, 1]) {
      const y = Math.round(area.y(part * this.#scaleS)) + 0.5;
      pen.beginPath();
      pen.moveTo(area.left, y);
      pen.lineTo(area.right, y);
      pen.stroke();
      pen.fillText(`${Number((part * this.#scaleS).toPrecision(2))} s`, area.left - 8, y);
    }
    pen.textBaseline = "alphabetic";
    pen.textAlign = "left";
    pen.fillText("10 s ago", area.left, area.floor + 20);
    pen.textAlign = "right";
    pen.fillText("now", area.right, area.floor + 20);
  }

  #drawGaps(pen, area) {
    pen.fillStyle = this.#colours["bad-soft"];
    const edge = this.#colours.bad;
    for (const [fromS, toS] of this.#gapSpans()) {
      const x = area.x(fromS);
      const width = Math.max(2, area.x(toS) - x);
      pen.fillRect(x, area.top, width, area.floor - area.top);
      pen.fillStyle = edge;
      pen.fillRect(x, area.floor - 3, width, 3);
      pen.fillStyle = this.#colours["bad-soft"];
    }
  }

  #gapSpans() {
    const spans = [];
    this.#samples.forEach(({ atS, gap }, i) => {
      if (!gap) return;
      const previousS = i > 0 ? this.#samples[i - 1].atS : atS;
      if (spans.length > 0 && spans.at(-1)[1] === previousS) spans.at(-1)[1] = atS;
      else spans.push([previousS, atS]);
    });
    return spans;
  }

  #drawDepth(pen, area) {
    if (this.#samples.length < 2) return;
    const trace = () => this.#samples.forEach(({ atS, depthS }) => pen.lineTo(area.x(atS), area.y(depthS)));
    pen.beginPath();
    pen.moveTo(area.x(this.#samples[0].atS), area.floor);
    trace();
    pen.lineTo(area.x(this.#samples.at(-1).atS), area.floor);
    pen.fillStyle = this.#colours["accent-soft"];
    pen.fill();
    pen.beginPath();
    trace();
    pen.strokeStyle = this.#colours.accent;
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.stroke();
  }

  #drawPackets(pen, area) {
    pen.strokeStyle = this.#colours["ink-soft"];
    pen.lineWidth = 1;
    pen.beginPath();
    for (const whenS of this.#packets) {
      const x = Math.round(area.x(whenS)) + 0.5;
      pen.moveTo(x, area.floor + 1);
      pen.lineTo(x, area.floor + 7);
    }
    pen.stroke();
  }
}

function nowS() {
  return performance.now() / 1000;
}
