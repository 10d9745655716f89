// Draws the curves of one or several runs with uPlot. The server has thinned them.
"use strict";

const COLORS = ["--c0", "--c1", "--c2", "--c3", "--p4", "--p5"];
const DASHES = [[], [11, 3], [7, 3, 2, 3], [3, 3]];

/** One sorted axis for several curves, and for each curve its values on it: undefined where it has none. */
function aligned(curves) {
  return uPlot.join(curves.map((curve) => [curve.x, curve.y]));
}

/** A number for an axis or a legend. */
function numberText(value) {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
  const text = Number(value.toPrecision(5)).toString();
  return size >= 1e4 ? text.replace(/\B(?=(\d{3})+$)/g, "\u202f") : text;
}

/** Positions of the slider -> steps of the mean: 0 leaves the choice to the server, 1 is no mean. */
const MEANS = [0, 1, 3, 5, 11, 25, 51, 101, 251, 501];

/** The state of the form in an address. */
function wishes(search) {
  const query = new URLSearchParams(search);
  const number = (key) => (query.get(key) ? Number(query.get(key)) : null);
  return { x: query.get("x") || "step", low: number("low"), high: number("high"), log: query.get("log") === "1", mean: number("mean") ?? 0 };
}

/** An address with this state of the form; its other parameters stay. */
function addressOf(search, wish) {
  const query = new URLSearchParams(search);
  const set = (key, value) => (value === null || value === "" ? query.delete(key) : query.set(key, value));
  set("x", wish.x === "step" ? null : wish.x);
  set("low", wish.low);
  set("high", wish.high);
  set("log", wish.log ? "1" : null);
  set("mean", wish.mean || null);
  return `?${query}`;
}

/** Index of the last value of a row. */
function lastValue(row) {
  const index = row.findLastIndex((value) => value != null);
  return index < 0 ? null : index;
}

/** The slider's position for a number of steps, the nearest one. */
function place(steps) {
  return MEANS.reduce((best, each, index) => (Math.abs(each - steps) < Math.abs(MEANS[best] - steps) ? index : best), 0);
}

class Curves {
  constructor(holder) {
    this.holder = holder;
    this.names = JSON.parse(holder.dataset.runs);
    this.form = holder.querySelector("[data-curve-form]");
    this.place = holder.querySelector("[data-curve-place]");
    this.status = holder.querySelector("[data-curve-status]");
    this.wish = wishes(location.search);
    this.plots = new Map();
    this.fill();
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => this.asked());
    this.form.addEventListener("reset", () => setTimeout(() => this.zoom(null, null)));
    this.form.mean.addEventListener("input", () => this.sayMean());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
    new ResizeObserver(() => this.resize()).observe(this.place);
  }

  fill() {
    this.form.x.value = this.wish.x;
    this.form.low.value = this.wish.low ?? "";
    this.form.high.value = this.wish.high ?? "";
    this.form.log.checked = this.wish.log;
    this.form.mean.value = place(this.wish.mean);
    this.sayMean();
  }

  /** Show what the slider's position means. */
  sayMean() {
    const steps = MEANS[this.form.mean.value];
    this.holder.querySelector("[data-mean]").textContent = { 0: "mean over 1/50 of the run", 1: "none" }[steps] ?? `mean of ${steps} steps`;
  }

  asked() {
    const number = (input) => (input.value === "" ? null : Number(input.value));
    const x = this.form.x.value;
    const moved = x !== this.wish.x;
    this.wish = { x, low: moved ? null : number(this.form.low), high: moved ? null : number(this.form.high), log: this.form.log.checked, mean: MEANS[this.form.mean.value] };
    this.show();
  }

  zoom(low, high) {
    const round = (value) => (this.wish.x === "step" ? Math.round(value) : Number(value.toPrecision(6)));
    this.wish = { ...this.wish, low: low === null ? null : round(low), high: high === null ? null : round(high) };
    this.show();
  }

  show() {
    this.fill();
    history.replaceState(null, "", addressOf(location.search, this.wish) + location.hash);
    this.load();
  }

  async load() {
    const wish = this.wish;
    const loaded = await Promise.all(this.names.map((name) => json(this.address(name))));
    if (wish !== this.wish) return; // a newer request replaced this one
    if (loaded.some((found) => !found)) {
      this.status.textContent = "The curves could not be read.";
      return;
    }
    this.loaded = loaded;
    this.draw();
    if (!this.watching && this.live()) {
      this.watching = true;
      repeat(2000, () => this.again());
    }
  }

  address(name) {
    const query = new URLSearchParams({ x: this.wish.x, mean: this.wish.mean });
    if (this.wish.low !== null) query.set("low", this.wish.low);
    if (this.wish.high !== null) query.set("high", this.wish.high);
    return `/api/curves/${runPath(name)}?${query}`;
  }

  live() {
    return this.loaded.some((found) => found.state === "running");
  }

  /** Read the curves of running runs again, and draw them if they changed. */
  async again() {
    const { wish, loaded } = this;
    const news = await Promise.all(loaded.map((found) => (found.state === "running" ? json(this.address(found.run)) : found)));
    if (wish !== this.wish || loaded !== this.loaded) return true;
    if (news.some((found) => !found)) return null;
    this.loaded = news;
    if (JSON.stringify(news) !== JSON.stringify(loaded)) this.draw();
    this.watching = this.live();
    return this.watching;
  }

  /** The ends of the axis of all figures; null without measurements. */
  span() {
    const places = this.loaded.flatMap((run) => run.series.flatMap((series) => [series.x[0], series.x[series.x.length - 1]]));
    const [low, high] = [this.wish.low ?? Math.min(...places), this.wish.high ?? Math.max(...places)];
    return places.length && low < high ? [low, high] : null;
  }

  draw() {
    if (!this.loaded) return;
    const figures = this.figures();
    this.status.textContent = figures.length ? "" : "No training step yet.";
    for (const [key, plot] of this.plots) if (!figures.some((figure) => figure.key === key)) { plot.figure.remove(); this.plots.delete(key); }
    for (const figure of figures) this.drawOne(figure);
  }

  /** The figures: of one run the curves of each figure, of several runs the same curve of each run. */
  figures() {
    const every = new Map(this.loaded.flatMap((found) => found.series.map((series) => [series.key, series])));
    const figures = new Map();
    for (const { key, title, unit, figure, figure_title: whole, note, log } of every.values()) {
      const together = this.names.length === 1 && figure !== "";
      const place = together ? `figure ${figure}` : key;
      if (!figures.has(place)) figures.set(place, { key: place, title: !figure ? title : together || whole.toLowerCase() === title ? whole : `${whole}: ${title}`, unit, note, log, curves: [] });
      figures.get(place).curves.push(key);
    }
    return [...figures.values()];
  }

  drawOne({ key, title, unit, note, log: always, curves }) {
    let plot = this.plots.get(key);
    if (!plot) {
      const figure = document.createElement("figure");
      const [heading, body, caption, table] = ["h3", "div", "figcaption", "details"].map((tag) => document.createElement(tag));
      caption.textContent = note;
      figure.append(heading, body, ...(note ? [caption] : []), table);
      this.place.append(figure);
      plot = { figure, heading, body, table };
      this.plots.set(key, plot);
    }
    const found = curves.flatMap((curve) => this.loaded.map((run, index) => {
      const series = run.series.find((each) => each.key === curve);
      return series && { series, name: this.names.length > 1 ? this.names[index] : curves.length > 1 ? series.title : title };
    }));
    const smoothing = Math.max(...found.map((each) => (each ? each.series.smoothing_steps : 0)));
    const smooth = smoothing > 0;
    const log = this.wish.log || (always && found.some((each) => each && each.series.y.some((value) => value > 0)));
    plot.heading.textContent = title + (unit ? `, ${unit}` : "") + (log && !this.wish.log ? ", log axis" : "") + (smooth ? `, mean of ${smoothing} steps` : "");
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    const lines = [];
    const options = [];
    found.forEach((each, index) => {
      if (!each) return;
      const { series, name } = each;
      const stroke = color(COLORS[index % COLORS.length]);
      const dash = DASHES[index % DASHES.length];
      const measured = { label: name, stroke, width: 2, dash, spanGaps: true, points: { show: series.x.length < 60, size: 5 }, value: (u, value) => numberText(value) };
      const faint = smooth && series.smoothed.length > 0;
      lines.push({ x: series.x, y: series.y });
      options.push(faint ? { ...measured, label: `${name}, measured`, stroke: stroke + "55", width: 1 } : measured);
      if (faint) {
        lines.push({ x: series.x, y: series.smoothed });
        options.push({ ...measured, label: `${name}, mean`, points: { show: false } });
      }
    });
    const data = aligned(lines);
    if (log) for (let i = 1; i < data.length; i += 1) data[i] = data[i].map((value) => (value > 0 ? value : null));
    const zero = !log && data.slice(1).every((row) => row.every((value) => !value)); // the library's axis would reach 100
    const resumed = this.loaded.flatMap((run) => run.resumed_at);
    const grid = { stroke: color("--grid"), width: 1 };
    const axis = { stroke: color("--soft"), grid, ticks: grid, font: "12px system-ui, sans-serif" };
    const words = { step: "steps", tokens: "tokens", seconds: "seconds in steps" };
    const settings = {
      width: Math.max(260, plot.body.clientWidth), height: 230, series: [{ label: words[this.wish.x], value: (u, value) => numberText(value) }, ...options],
      // The same axis for all figures.
      scales: { x: { time: false, ...(this.span() && { range: this.span() }) }, y: { distr: log ? 3 : 1, ...(zero && { range: [0, 1] }) } },
      axes: [{ ...axis, values: (u, ticks) => ticks.map(numberText) }, { ...axis, size: 64, values: (u, ticks) => ticks.map((tick) => (tick === null ? "" : numberText(tick))) }],
      cursor: { drag: { x: true, y: false, setScale: false }, sync: { key: "curves", setSeries: false } },
      hooks: {
        // Without a pointer the legend shows each curve's last value.
        setLegend: [(u) => { if (u.cursor.idx == null && data[0].length) u.setLegend({ idxs: data.map(lastValue) }, false); }],
        setSelect: [(u) => { if (u.select.width > 4) this.zoom(u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")); }],
        draw: [(u) => {
          for (const at of resumed) {
            const left = u.valToPos(at, "x", true);
            u.ctx.save();
            u.ctx.strokeStyle = color("--open");
            u.ctx.setLineDash([4, 4]);
            u.ctx.beginPath();
            u.ctx.moveTo(left, u.bbox.top);
            u.ctx.lineTo(left, u.bbox.top + u.bbox.height);
            u.ctx.stroke();
            u.ctx.fillStyle = color("--open");
            u.ctx.fillText("resumed", left + 4, u.bbox.top + 12);
            u.ctx.restore();
          }
        }],
      },
    };
    if (plot.plot) plot.plot.destroy();
    plot.plot = new uPlot(settings, data, plot.body);
    plot.plot.setLegend({ idxs: data.map(lastValue) }, false);
    // The faint line has no entry of its own in the legend.
    plot.body.querySelectorAll(".u-legend .u-series").forEach((entry, index) => { entry.hidden = index > 0 && options[index - 1].label.endsWith(", measured"); });
    plot.body.querySelector("canvas").setAttribute("role", "img");
    plot.body.querySelector("canvas").setAttribute("aria-label", `${title}: ${options.map((option, index) => `${option.label} from ${numberText(lines[index].y[0])} to ${numberText(lines[index].y[lines[index].y.length - 1])}`).join("; ")}`);
    this.numbers(plot.table, title, options, lines);
  }

  /** A table of about a dozen points, for people who do not see the curve. */
  numbers(table, title, options, lines) {
    const [axis, ...rows] = aligned(lines);
    const stride = Math.max(1, Math.floor((axis.length - 1) / 11));
    table.innerHTML = "<summary>The numbers</summary>";
    const body = document.createElement("table");
    const add = (cells, tag) => {
      const line = body.insertRow();
      cells.forEach((cell, index) => {
        const element = document.createElement(index === 0 ? "th" : tag);
        if (element.tagName === "TH") element.scope = tag === "th" ? "col" : "row";
        element.textContent = cell;
        line.append(element);
      });
    };
    add([this.wish.x, ...options.map((option) => option.label)], "th");
    axis.forEach((x, index) => { if (index % stride === 0 || index === axis.length - 1) add([numberText(x), ...rows.map((row) => numberText(row[index]))], "td"); });
    table.append(body);
  }

  resize() {
    for (const { plot, body } of this.plots.values()) if (plot && Math.abs(plot.width - body.clientWidth) > 2) plot.setSize({ width: Math.max(260, body.clientWidth), height: 230 });
  }
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("[data-curves]").forEach((holder) => new Curves(holder).load());
});
