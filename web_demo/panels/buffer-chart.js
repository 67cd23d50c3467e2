// Chart of a BufferHistory: buffered audio as an area, packets as ticks, gaps in red, waits for text in grey.

import { prefersReducedMotion } from "./dom.js";

const LIVE_SPAN_S = 12;
const REDRAW_S = 0.05; // less often than each frame: the server may run on the same CPU
const REDUCED_MOTION_REDRAW_S = 0.5; // for users who prefer reduced motion
const MIN_SPAN_S = 4;
const SCALES_S = [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const TICK_INTERVALS_S = [0.5, 1, 2, 5, 10, 30, 60, 120];
const PAD = { left: 44, right: 12, top: 14, bottom: 28 };
const NAMES = ["soft", "line", "accent", "accent-soft", "bad", "bad-soft", "wait-soft"];

export class BufferChart {
  #canvas;
  #history;
  #running = false;
  #colours = {};
  #font = "12px sans-serif";
  #ticking = false;
  #area = null;

  constructor(canvas, history) {
    this.#canvas = canvas;
    this.#history = history;
    // The observer is first called when the canvas is in the document: before that it has no colours.
    new ResizeObserver(() => this.#readColours()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#readColours());
  }

  /** While running the chart scrolls; afterwards it shows the whole history. */
  set running(on) {
    this.#running = on;
    if (on && !this.#ticking) this.#tick();
    if (!on) this.draw();
  }

  /** The timer limits the rate: requestAnimationFrame alone would redraw 60 times a second. */
  #tick() {
    this.#ticking = this.#running;
    if (!this.#running) return;
    this.draw();
    setTimeout(() => requestAnimationFrame(() => this.#tick()), 1000 * (prefersReducedMotion() ? REDUCED_MOTION_REDRAW_S : REDRAW_S));
  }

  #readColours() {
    const style = getComputedStyle(this.#canvas);
    for (const name of NAMES) this.#colours[name] = style.getPropertyValue(`--${name}`).trim();
    this.#font = `12px ${style.fontFamily}`;
    this.draw();
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.#canvas;
    if (width === 0 || height === 0 || this.#colours.accent === undefined) return;
    const ratio = devicePixelRatio || 1;
    const [pixelsWide, pixelsHigh] = [Math.round(width * ratio), Math.round(height * ratio)];
    const pen = this.#canvas.getContext("2d");
    if (this.#canvas.width !== pixelsWide || this.#canvas.height !== pixelsHigh) {
      [this.#canvas.width, this.#canvas.height] = [pixelsWide, pixelsHigh];
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = this.#font;
    this.#area = this.#layOut(width, height);
    this.#drawGrid(pen);
    pen.save();
    pen.beginPath();
    pen.rect(this.#area.left, 0, this.#area.right - this.#area.left, height);
    pen.clip();
    this.#drawWaits(pen, "text", "wait-soft", null);
    this.#drawWaits(pen, "gap", "bad-soft", "bad");
    this.#drawDepth(pen);
    this.#drawTarget(pen);
    this.#drawPackets(pen);
    pen.restore();
  }

  #layOut(width, height) {
    const [fromS, toS] = this.#window();
    const top = this.#history.maxDepthS(fromS) * 1.1;
    const scaleS = SCALES_S.find((scale) => scale >= top) ?? SCALES_S.at(-1);
    const [left, right, floor] = [PAD.left, width - PAD.right, height - PAD.bottom];
    return {
      fromS,
      toS,
      scaleS,
      left,
      right,
      top: PAD.top,
      floor,
      x: (atS) => left + ((right - left) * (atS - fromS)) / (toS - fromS),
      y: (depthS) => floor - (floor - PAD.top) * Math.min(1, depthS / scaleS),
    };
  }

  #window() {
    const extent = this.#history.extentS;
    if (this.#running || extent === null) return [nowS() - LIVE_SPAN_S, nowS()];
    return [extent[0], Math.max(extent[1], extent[0] + MIN_SPAN_S)];
  }

  #drawGrid(pen) {
    const { left, right, floor, x, y, fromS, toS, scaleS } = this.#area;
    pen.lineWidth = 1;
    pen.strokeStyle = this.#colours.line;
    pen.fillStyle = this.#colours.soft;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const part of [0, 0.5, 1]) {
      const at = Math.round(y(part * scaleS)) + 0.5;
      line(pen, left, at, right, at);
      pen.fillText(`${Number((part * scaleS).toPrecision(2))} s`, left - 8, at);
    }
    pen.textBaseline = "alphabetic";
    const stepS = TICK_INTERVALS_S.find((step) => (toS - fromS) / step <= (right - left) / 70) ?? TICK_INTERVALS_S.at(-1);
    const originS = this.#running ? toS : fromS;
    const count = Math.floor((toS - fromS) / stepS);
    for (let i = 0; i <= count; i++) {
      const atS = this.#running ? originS - i * stepS : originS + i * stepS;
      pen.textAlign = i === 0 ? (this.#running ? "right" : "left") : "center";
      const label = i === 0 && this.#running ? "now" : `${this.#running ? "−" : ""}${i * stepS} s`;
      if (x(atS) > left + 20 || i === 0) pen.fillText(label, x(atS), floor + 22);
    }
  }

  #drawWaits(pen, kind, fill, edge) {
    const { x, top, floor } = this.#area;
    for (const [fromS, toS] of this.#history.waits(kind)) {
      const from = x(fromS);
      const width = Math.max(2, x(toS) - from);
      pen.fillStyle = this.#colours[fill];
      pen.fillRect(from, top, width, floor - top);
      if (edge === null) continue;
      pen.fillStyle = this.#colours[edge];
      pen.fillRect(from, floor - 4, width, 4);
      if (width > 44) {
        pen.textAlign = "center";
        pen.fillText(`${Math.round((toS - fromS) * 1000)} ms`, from + width / 2, top + 12);
      }
    }
  }

  #drawDepth(pen) {
    const samples = this.#history.samples.filter(({ atS }) => atS >= this.#area.fromS - 1);
    if (samples.length < 2) return;
    const { x, y, floor, top } = this.#area;
    const addPoints = () => samples.forEach(({ atS, depthS }) => pen.lineTo(x(atS), y(depthS)));
    pen.beginPath();
    pen.moveTo(x(samples[0].atS), floor);
    addPoints();
    pen.lineTo(x(samples.at(-1).atS), floor);
    const fill = pen.createLinearGradient(0, top, 0, floor);
    fill.addColorStop(0, this.#colours.accent);
    fill.addColorStop(1, this.#colours["accent-soft"]);
    pen.globalAlpha = 0.45;
    pen.fillStyle = fill;
    pen.fill();
    pen.globalAlpha = 1;
    pen.beginPath();
    addPoints();
    pen.strokeStyle = this.#colours.accent;
    pen.lineWidth = 2;
    pen.lineJoin = "round";
    pen.stroke();
  }

  #drawTarget(pen) {
    const samples = this.#history.samples.filter(({ atS, targetS }) => targetS > 0 && atS >= this.#area.fromS - 1);
    if (samples.length < 2) return;
    pen.beginPath();
    samples.forEach(({ atS, targetS }) => pen.lineTo(this.#area.x(atS), this.#area.y(targetS)));
    pen.strokeStyle = this.#colours.soft;
    pen.lineWidth = 1;
    pen.setLineDash([4, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }

  #drawPackets(pen) {
    pen.strokeStyle = this.#colours.soft;
    pen.lineWidth = 1;
    for (const atS of this.#history.packets) {
      const x = Math.round(this.#area.x(atS)) + 0.5;
      line(pen, x, this.#area.floor + 2, x, this.#area.floor + 9);
    }
  }
}

function line(pen, x1, y1, x2, y2) {
  pen.beginPath();
  pen.moveTo(x1, y1);
  pen.lineTo(x2, y2);
  pen.stroke();
}

function nowS() {
  return performance.now() / 1000;
}
