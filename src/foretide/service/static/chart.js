// Lines over time on a canvas: bands, steps, dashes, a linear or logarithmic axis, values where the pointer is.

import { clock, make, replace } from "./format.js";

const LEFT = 56, RIGHT = 10, TOP = 8, BOTTOM = 22;

export class Chart {
  // format: value to text. log: whether the axis of values is logarithmic.
  constructor(figure, { format, log = false }) {
    this.format = format;
    this.log = log;
    this.lines = [];
    this.bands = [];
    this.range = [0, 1];
    this.pointer = null;
    this.legend = make("div", { class: "legend" });
    this.canvas = make("canvas", { role: "img" });
    this.tip = make("div", { class: "tip", hidden: true });
    this.plot = make("div", { class: "plot" }, this.canvas, this.tip);
    figure.append(this.legend, this.plot);
    this.title = figure.querySelector("h2").firstChild.textContent.trim();
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.canvas.addEventListener("pointerleave", () => this.point(null));
    new ResizeObserver(() => this.paint()).observe(this.plot);
  }

  // lines: {label, color, at, values, step, dash, area, quiet}; bands: {color, from, to, low, high}. Colours are names of
  // custom properties.
  show(lines, bands, range) {
    Object.assign(this, { lines, bands, range });
    this.explain();
    this.paint();
  }

  explain() {
    const shown = this.lines.filter((line) => !line.quiet);
    const entries = shown.map((line) => {
      const key = make("span", { class: line.dash ? "key dash" : "key" });
      key.style.setProperty("--c", `var(${line.color})`);
      key.style.background = `var(${line.color})`;
      const last = lastKnown(line.values);
      return make("span", {}, key, `${line.label} `, make("b", {}, last === null ? "–" : this.format(last)));
    });
    for (const band of this.bands.filter((one) => one.label && one.from.length)) {
      const key = make("span", { class: "key area" });
      key.style.background = `var(${band.color})`;
      entries.push(make("span", {}, key, band.label));
    }
    replace(this.legend, ...entries);
    const words = shown.map((line) => `${line.label} ${this.format(lastKnown(line.values))}`).join(", ");
    this.canvas.setAttribute("aria-label", `${this.title}: ${words || "no data yet"}`);
  }

  point(x) {
    this.pointer = x;
    this.paint();
  }

  paint() {
    const width = this.plot.clientWidth, height = this.plot.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
    }
    const pen = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(name).trim();
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    this.scale(width, height);
    this.axes(pen, width, height);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, width - LEFT - RIGHT, height - BOTTOM + 1);
    pen.clip();
    for (const band of this.bands) this.band(pen, band);
    for (const line of this.lines) this.line(pen, line);
    pen.restore();
    this.cross(pen, height);
  }

  scale(width, height) {
    const [from, to] = this.range;
    let low = Infinity, high = -Infinity;
    const take = (value) => {
      if (value === null || !Number.isFinite(value) || (this.log && value <= 0)) return;
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (const { at, values } of this.lines) at.forEach((instant, place) => { if (instant >= from && instant <= to) take(values[place]); });
    for (const band of this.bands) band.from.forEach((instant, place) => { if (band.to[place] >= from && instant <= to) take(band.high[place]); });
    if (low > high) [low, high] = this.log ? [0.001, 1] : [0, 1];
    this.ticks = this.log ? powers(low, high) : steps(high);
    this.bottom = this.log ? this.ticks[0] : 0;
    this.top = Math.max(this.log ? high * 1.3 : high * 1.06, this.log ? 0 : this.ticks.at(-1), this.bottom * 10 || 1e-9);
    const span = Math.max(to - from, 1e-9);
    this.x = (instant) => LEFT + (width - LEFT - RIGHT) * (instant - from) / span;
    this.instant = (x) => from + span * (x - LEFT) / (width - LEFT - RIGHT);
    const tall = height - TOP - BOTTOM, shape = this.log ? Math.log : (value) => value;
    const base = shape(this.bottom), whole = shape(this.top) - base;
    this.y = (value) => TOP + tall * (1 - (shape(Math.max(value, this.log ? this.bottom : value)) - base) / whole);
  }

  axes(pen, width, height) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = this.colour("--faint");
    pen.strokeStyle = this.colour("--rule");
    pen.lineWidth = 1;
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (const tick of this.ticks) {
      const y = Math.round(this.y(tick)) + 0.5;
      if (y < TOP - 1 || tick > this.top) continue;
      pen.beginPath();
      pen.moveTo(LEFT, y);
      pen.lineTo(width - RIGHT, y);
      pen.stroke();
      pen.fillText(this.format(tick), LEFT - 7, y);
    }
    pen.textAlign = "center";
    pen.textBaseline = "top";
    const [from, to] = this.range, each = nice((to - from) / Math.max(2, width / 110), [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400]);
    for (let instant = Math.ceil(from / each) * each; instant <= to; instant += each) {
      const x = Math.min(this.x(instant), width - RIGHT - 16);
      pen.fillText(clock(instant), Math.max(x, LEFT + 14), height - BOTTOM + 6);
    }
  }

  band(pen, band) {
    pen.fillStyle = this.colour(band.color);
    band.from.forEach((from, place) => {
      if (band.low[place] === null || band.high[place] === null) return;
      const left = this.x(from), top = this.y(band.high[place]);
      pen.fillRect(left, top, Math.max(this.x(band.to[place]) - left, 0.5), this.y(band.low[place]) - top);
    });
  }

  line(pen, { color, at, values, step, dash, area, quiet }) {
    pen.beginPath();
    let open = false, first = null, last = null;
    values.forEach((value, place) => {
      if (value === null || !Number.isFinite(value)) { open = false; return; }
      const x = this.x(at[place]), y = this.y(value);
      if (!open) pen.moveTo(x, y);
      else {
        if (step) pen.lineTo(x, last.y);
        pen.lineTo(x, y);
      }
      first = first || { x, y };
      last = { x, y };
      open = true;
    });
    pen.strokeStyle = this.colour(color);
    pen.lineWidth = 1.7;
    pen.lineJoin = "round";
    pen.globalAlpha = quiet ? 0.75 : 1;
    pen.setLineDash(dash ? [5, 4] : []);
    pen.stroke();
    pen.setLineDash([]);
    if (area && first) {
      pen.lineTo(last.x, this.y(this.bottom));
      pen.lineTo(first.x, this.y(this.bottom));
      pen.globalAlpha = 0.13;
      pen.fillStyle = this.colour(color);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  cross(pen, height) {
    const inside = this.pointer !== null && this.pointer >= LEFT;
    const instant = inside ? this.instant(this.pointer) : null;
    const found = inside ? this.lines.map((line) => ({ line, value: valueAt(line, instant) })).filter(({ value }) => value !== null) : [];
    this.tip.hidden = !found.length;
    if (!found.length) return;
    pen.strokeStyle = this.colour("--faint");
    pen.beginPath();
    pen.moveTo(this.pointer + 0.5, TOP);
    pen.lineTo(this.pointer + 0.5, height - BOTTOM);
    pen.stroke();
    replace(this.tip, make("div", {}, clock(instant)), ...found.map(({ line, value }) => make("div", {}, `${line.label}: `, make("b", {}, this.format(value)))));
    const right = this.pointer > this.plot.clientWidth / 2;
    this.tip.style.left = right ? "" : `${this.pointer + 12}px`;
    this.tip.style.right = right ? `${this.plot.clientWidth - this.pointer + 12}px` : "";
  }
}

function lastKnown(values) {
  for (let place = values.length - 1; place >= 0; place -= 1) if (values[place] !== null && Number.isFinite(values[place])) return values[place];
  return null;
}

// The value of a line at an instant: the one that held there for a step, else the nearest.
function valueAt({ at, values, step }, instant) {
  if (!at.length || instant < at[0] - 30) return null;
  let low = 0, high = at.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (at[middle] <= instant) low = middle; else high = middle - 1;
  }
  if (!step && low + 1 < at.length && at[low + 1] - instant < instant - at[low]) low += 1;
  const value = values[low];
  return value === null || !Number.isFinite(value) ? null : value;
}

function nice(least, choices) {
  return choices.find((choice) => choice >= least) || Math.ceil(least / 86400) * 86400;
}

function steps(high) {
  const rough = Math.max(high, 1e-9) / 4, size = 10 ** Math.floor(Math.log10(rough));
  const each = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((step) => step >= rough);
  const found = [];
  for (let value = 0; value <= high * 1.06; value += each) found.push(value);
  return found.length > 1 ? found : [0, each];
}

function powers(low, high) {
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += 1) found.push(10 ** power);
  return found;
}
