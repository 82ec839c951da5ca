"use strict";
/* Charts in SVG, without dependencies. Each is made once in a host element and shown data as often as it
   changes:

     const chart = Charts.line(host);
     chart.show({x: [0, 1, 2], unit: "rows/s", series: [{name: "a", values: [5, null, 7]}]});

   Whatever comes from data becomes text (textContent), never markup. Colours are numbers 1..8 (--c1 .. --c8). */

const Charts = (() => {
  const { html, svg, colour, format, labels, clock, ticks, times, extent } = Drawing;
  const LEFT = 50, RIGHT = 12, TOP = 8, BOTTOM = 20;

  // -- what all charts share ------------------------------------------------------------------------------

  const linked = new Set(); // charts over time: a cursor in one is a cursor in all

  class Chart {
    constructor(host) {
      this.host = host;
      host.classList.add("chart");
      this.legend = html("div", { class: "legend" });
      this.plot = svg("svg", { role: "img", tabindex: "0" });
      this.tip = html("div", { class: "tip", hidden: "" });
      host.append(this.legend, this.plot, this.tip);
      this.spec = null;
      this.cursor = null;
      this.width = 0;
      new ResizeObserver(() => { if (host.clientWidth !== this.width) this.draw(); }).observe(host);
      this.plot.addEventListener("pointermove", (event) => this.pointAt(event.offsetX));
      this.plot.addEventListener("pointerdown", (event) => this.pointAt(event.offsetX));
      this.plot.addEventListener("pointerleave", () => this.leave());
      this.plot.addEventListener("blur", () => this.leave());
      this.plot.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (step && this.spec) { event.preventDefault(); this.step(step); }
      });
    }

    show(spec) {
      this.spec = spec;
      if (spec.kind === "time") linked.add(this);
      this.draw();
      if (this.cursor !== null && !this.tip.hidden) this.showTip();
    }

    draw() {
      if (!this.spec || !this.host.clientWidth) return;
      this.width = this.host.clientWidth;
      this.height = this.spec.height || 150;
      this.plot.setAttribute("height", this.height);
      this.plot.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
      this.plot.replaceChildren();
      this.render();
      this.rule = svg("line", { class: "cursor", y1: TOP, y2: this.height - BOTTOM, visibility: "hidden" });
      this.plot.append(this.rule);
    }

    pointAt(offset) {
      if (!this.spec || !this.nearest) return;
      const at = this.nearest(offset);
      if (at === null) return;
      this.cursor = at;
      this.showTip();
      if (this.spec.kind === "time") for (const chart of linked) if (chart !== this) chart.moveCursor(this.spec.x[at]);
    }

    step(by) {
      const last = this.count() - 1;
      this.cursor = Math.min(last, Math.max(0, (this.cursor === null ? last + 1 : this.cursor) + by));
      this.showTip();
    }

    leave() {
      this.cursor = null;
      this.tip.hidden = true;
      for (const chart of this.spec && this.spec.kind === "time" ? linked : [this]) {
        if (chart.rule) chart.rule.setAttribute("visibility", "hidden");
      }
    }

    moveCursor(x) {
      if (!this.rule || !this.across) return;
      const at = this.across(x);
      const inside = at >= LEFT && at <= this.width - RIGHT;
      this.rule.setAttribute("visibility", inside ? "visible" : "hidden");
      this.rule.setAttribute("x1", at);
      this.rule.setAttribute("x2", at);
    }

    showTip() {
      const at = Math.min(this.cursor, this.count() - 1);
      if (at < 0) return;
      const [x, when, lines] = this.tipAt(at);
      this.moveCursor(x);
      this.tip.replaceChildren(html("span", { class: "when" }, when));
      for (const [number, name, value] of lines) {
        this.tip.append(html("div", {}, html("i", { style: { background: number } }), name, html("b", {}, value)));
      }
      this.tip.hidden = false;
      const pixel = this.across(x);
      const beyond = pixel + 14 + this.tip.offsetWidth > this.width;
      this.tip.style.left = `${Math.max(0, beyond ? pixel - 12 - this.tip.offsetWidth : pixel + 12)}px`;
      this.tip.style.top = `${this.plot.getBoundingClientRect().top - this.host.getBoundingClientRect().top + TOP}px`;
    }

    /* Axes, and the functions `across` and `up` from values to pixels. */
    frame(x0, x1, y0, y1) {
      const { width, height, spec } = this;
      this.across = (x) => LEFT + ((x - x0) / (x1 - x0 || 1)) * (width - LEFT - RIGHT);
      this.up = (y) => height - BOTTOM - ((y - y0) / (y1 - y0 || 1)) * (height - TOP - BOTTOM);
      const rows = ticks(y0, y1, height < 130 ? 3 : 4, spec.unit);
      const rowLabels = labels(rows, spec.unit);
      rows.forEach((tick, k) => {
        const y = Math.round(this.up(tick)) + 0.5;
        this.plot.append(svg("line", { class: tick === y0 ? "axis" : "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }));
        this.plot.append(svg("text", { x: LEFT - 7, y: y + 3.5, "text-anchor": "end" }, rowLabels.texts[k]));
      });
      if (rowLabels.factor) this.plot.append(svg("text", { x: LEFT + 5, y: TOP + 4 }, rowLabels.factor));
      const most = Math.max(2, Math.floor((width - LEFT) / (spec.kind === "time" ? 68 : 60)));
      let columns, columnLabels;
      if (spec.kind === "time") {
        const { found, label } = times(x0, x1, most);
        columns = found;
        columnLabels = found.map(label);
      } else {
        columns = ticks(x0, x1, most, spec.xUnit);
        columnLabels = labels(columns, spec.xUnit).texts;
      }
      columns.forEach((tick, k) => {
        const x = this.across(tick);
        this.plot.append(svg("line", { class: "axis", x1: x, x2: x, y1: height - BOTTOM, y2: height - BOTTOM + 4 }));
        const edge = x > width - RIGHT - 18 ? "end" : "middle";
        const at = edge === "end" ? width - RIGHT + 8 : x;
        this.plot.append(svg("text", { x: at, y: height - 4, "text-anchor": edge }, columnLabels[k]));
      });
      for (const mark of spec.marks || []) {
        const x = this.across(mark.x);
        if (x < LEFT || x > width - RIGHT) continue;
        this.plot.append(svg("line", { class: "mark", x1: x, x2: x, y1: TOP, y2: height - BOTTOM }));
        if (mark.text) this.plot.append(svg("text", { class: "marked", x: x + 4, y: TOP + 9 }, mark.text));
      }
    }

    showLegend(entries) {
      this.legend.replaceChildren(...entries.map(([number, name, value]) => html(
        "span", {}, html("i", { style: { background: number } }), name, value === null ? null : html("b", {}, value),
      )));
      this.plot.setAttribute("aria-label", entries.map(([, name, value]) => `${name} ${value ?? ""}`.trim()).join(", "));
    }
  }

  // -- lines, bands and stacked areas over time or another measure -----------------------------------------

  /* spec: x, series [{name, values, color, low, high, fill, dash}], unit, kind ("time": x in
     milliseconds; else numbers in xUnit), top and bottom of the axis, stack, marks [{x, text}], height. */
  class Line extends Chart {
    count() { return this.spec.x.length; }

    render() {
      const { x, unit } = this.spec;
      const shown = this.spec.stack ? stacked(this.spec.series) : this.spec.series;
      this.shown = shown;
      this.showLegend(shown.map((s, k) => [
        colour(s.color || k + 1), s.name, this.spec.kind === "time" ? format(last(s.values), unit) : null,
      ]));
      const xExtent = extent([x]);
      if (!xExtent) return;
      const pad = xExtent[0] === xExtent[1] ? (this.spec.kind === "time" ? 30000 : 1) : 0;
      const yExtent = extent(shown.flatMap((s) => [s.above || s.values, s.high || [], s.low || []])) || [0, 1];
      const bottom = this.spec.bottom ?? Math.min(0, yExtent[0]);
      let top = this.spec.top ?? Math.max(yExtent[1], bottom) * 1.06;
      if (!(top > bottom)) top = bottom + 1;
      this.frame(xExtent[0] - pad, xExtent[1] + pad, bottom, top);
      shown.forEach((s, k) => this.series(s, colour(s.color || k + 1), x, bottom));
    }

    series(s, color, x, bottom) {
      const upper = s.above || s.values, lower = s.above ? s.below : s.low;
      const clip = (y) => Math.max(TOP - 2, Math.min(this.height - BOTTOM, this.up(y)));
      const runs = [];
      let run = [];
      upper.forEach((y, k) => {
        if (y === null || y === undefined || !Number.isFinite(y)) { if (run.length) runs.push(run); run = []; } else run.push(k);
      });
      if (run.length) runs.push(run);
      for (const each of runs) {
        const over = (values) => each.map((k) => `${this.across(x[k]).toFixed(1)},${clip(values[k]).toFixed(1)}`);
        if (s.above || s.fill || (s.low && s.high)) {
          const roof = s.low && s.high ? s.high : upper;
          const floor = s.above ? s.below : s.low && s.high ? s.low : each.reduce((all, k) => { all[k] = bottom; return all; }, []);
          const outline = [...over(roof), ...over(floor).reverse()].join(" ");
          const area = svg("polygon", { class: s.above ? "area" : "band", points: outline });
          area.style.fill = color;
          this.plot.append(area);
        }
        if (s.above) continue;
        if (each.length === 1) {
          const dot = svg("circle", { class: "dot", cx: this.across(x[each[0]]), cy: clip(upper[each[0]]), r: 3.5 });
          dot.style.fill = color;
          this.plot.append(dot);
          continue;
        }
        const curve = svg("polyline", { class: "curve", points: over(upper).join(" "), "stroke-dasharray": s.dash ? "5 4" : null });
        curve.style.stroke = color;
        this.plot.append(curve);
      }
    }

    nearest(offset) {
      const { x } = this.spec;
      if (!x.length || !this.across) return null;
      let best = 0;
      x.forEach((value, k) => {
        if (Math.abs(this.across(value) - offset) < Math.abs(this.across(x[best]) - offset)) best = k;
      });
      return best;
    }

    tipAt(at) {
      const { x, unit, kind, xUnit, note } = this.spec;
      const when = kind === "time" ? clock(x[at], true) : format(x[at], xUnit);
      const lines = this.shown.map((s, k) => {
        const value = format(s.values[at], unit);
        const between = s.low && s.high ? ` [${format(s.low[at], unit)}, ${format(s.high[at], unit)}]` : "";
        return [colour(s.color || k + 1), s.name, value + between];
      });
      return [x[at], note ? `${when} · ${note(at)}` : when, lines];
    }
  }

  function stacked(series) {
    let below = null;
    return series.map((s) => {
      const floor = below || s.values.map(() => 0);
      const above = s.values.map((v, k) => floor[k] + (v || 0));
      below = above;
      return { ...s, above, below: floor };
    });
  }

  const last = (values) => {
    for (let k = values.length - 1; k >= 0; k -= 1) if (values[k] !== null && values[k] !== undefined) return values[k];
    return null;
  };

  // -- histograms and curves by spans ------------------------------------------------------------------------

  /* spec: low, width (of a span), values, color, name, unit, xUnit, xName, height. */
  class Spans extends Chart {
    count() { return this.spec.values.length; }

    render() {
      const { low, width, values, color } = this.spec;
      const high = low + width * values.length;
      const yExtent = extent([values]) || [0, 1];
      this.legend.hidden = true;
      this.plot.setAttribute("aria-label", this.spec.name || "");
      this.frame(low, high, 0, yExtent[1] > 0 ? yExtent[1] * 1.06 : 1);
      if (low < 0 && high > 0) {
        const zero = this.across(0);
        this.plot.append(svg("line", { class: "axis", x1: zero, x2: zero, y1: TOP, y2: this.height - BOTTOM }));
      }
      values.forEach((value, k) => {
        const left = this.across(low + k * width), right = this.across(low + (k + 1) * width);
        const top = this.up(value);
        const bar = svg("rect", {
          class: "bar", x: left + 0.4, width: Math.max(0.6, right - left - 0.8), y: top, height: Math.max(0, this.height - BOTTOM - top),
        });
        bar.style.fill = colour(color || 1);
        this.plot.append(bar);
      });
    }

    nearest(offset) {
      const { low, width, values } = this.spec;
      const at = Math.floor((offset - this.across(low)) / (this.across(low + width) - this.across(low)));
      return at >= 0 && at < values.length ? at : null;
    }

    tipAt(at) {
      const { low, width, values, unit, xUnit, xName, color, name } = this.spec;
      const from = low + at * width;
      const when = `${xName ? `${xName} ` : ""}${format(from, xUnit)} to ${format(from + width, xUnit)}`;
      return [from + width / 2, when, [[colour(color || 1), name, format(values[at], unit)]]];
    }
  }

  // -- a window as basic windows, as GrubJoin draws a harvest -----------------------------------------------

  /* spec: count (of basic windows), size (of the window), pieces [[from, to]] in basic windows that are
     probed, ranks (of each basic window, from 1; null where it is not probed), unit. */
  class Strip extends Chart {
    count() { return this.spec.count; }

    render() {
      const { count, pieces, ranks } = this.spec;
      this.legend.hidden = true;
      this.across = (x) => (x / count) * this.width;
      const height = this.height;
      this.plot.append(svg("rect", { class: "cell", x: 0, y: 0, width: this.width, height, rx: 3 }));
      for (const [from, to] of pieces) {
        this.plot.append(svg("rect", {
          class: "piece", x: this.across(from), width: this.across(to) - this.across(from), y: 0, height,
        }));
      }
      for (let k = 1; k < count; k += 1) {
        const x = this.across(k);
        this.plot.append(svg("line", { class: "border", x1: x, x2: x, y1: 0, y2: height }));
      }
      if (this.width / count >= 15) {
        ranks.forEach((rank, k) => {
          if (rank === null) return;
          this.plot.append(svg("text", { class: "rank", x: this.across(k + 0.5), y: height / 2 + 3.5 }, String(rank)));
        });
      }
    }

    moveCursor() {}

    nearest(offset) {
      return Math.max(0, Math.min(this.spec.count - 1, Math.floor((offset / this.width) * this.spec.count)));
    }

    tipAt(at) {
      const { count, size, ranks, unit, pieces } = this.spec;
      const fraction = pieces.reduce((sum, [from, to]) => sum + Math.max(0, Math.min(to, at + 1) - Math.max(from, at)), 0);
      const age = `age ${format((at * size) / count, unit)} to ${format(((at + 1) * size) / count, unit)}`;
      const probed = fraction > 0.999 ? "probed" : fraction > 0 ? `${format(fraction, "%")} probed` : "not probed";
      return [at + 0.5, age, [[fraction > 0 ? "var(--straw)" : "var(--empty)", probed, ranks[at] === null ? "" : `rank ${ranks[at]}`]]];
    }
  }

  // -- tables ------------------------------------------------------------------------------------------------

  /* columns: [{name, left, text}]; rows: lists of text, or of {text, fraction} for a cell with a bar. */
  function table(host, columns, rows) {
    const kind = (column) => [column.left ? "left" : "", column.text ? "text" : ""].join(" ").trim() || null;
    const cell = (value, column) => {
      if (value === null || typeof value !== "object") return html("td", { class: kind(column), title: column.text ? value : null }, value ?? "");
      const bar = html("i", { style: { width: `${100 * Math.min(1, Math.max(0, value.fraction))}%` } });
      return html("td", { class: kind(column) }, value.text, html("span", { class: "meter" }, bar));
    };
    host.classList.add("table");
    host.replaceChildren(html("table", {},
      html("thead", {}, html("tr", {}, ...columns.map((c) => html("th", { class: c.left ? "left" : null }, c.name)))),
      html("tbody", {}, ...rows.map((row) => html("tr", {}, ...row.map((value, k) => cell(value, columns[k])))))));
  }

  return {
    line: (host) => new Line(host),
    spans: (host) => new Spans(host),
    strip: (host) => new Strip(host),
    table,
  };
})();
