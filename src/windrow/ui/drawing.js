"use strict";
/* Elements, numbers as text, and the ticks of axes: what pages and charts are made of. */

const Drawing = (() => {
  const SVG = "http://www.w3.org/2000/svg";

  // -- elements -----------------------------------------------------------------------------------------

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value === null || value === undefined || value === false) continue;
      if (name === "class") element.setAttribute("class", value);
      else if (name === "style") Object.assign(element.style, value);
      else element.setAttribute(name, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }
  const html = (name, attributes, ...children) => fill(document.createElement(name), attributes, children);
  const svg = (name, attributes, ...children) => fill(document.createElementNS(SVG, name), attributes, children);
  const colour = (number) => `var(--c${((number - 1) % 8) + 1})`;

  // -- numbers as text ----------------------------------------------------------------------------------

  const superscript = (power) => [...String(power)].map((c) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(c)]).join("");

  function digits(value, significant) {
    if (value === 0) return "0";
    const magnitude = Math.floor(Math.log10(Math.abs(value)));
    if (magnitude < -4) return `${digits(value / 10 ** magnitude, 2)}×10${superscript(magnitude)}`;
    return value.toLocaleString("en", { maximumFractionDigits: Math.max(0, significant - 1 - magnitude) });
  }

  function scaled(value, base, units) {
    let magnitude = Math.abs(value), k = 0;
    while (magnitude >= base * 0.9995 && k < units.length - 1) { magnitude /= base; k += 1; }
    return digits(Math.sign(value) * magnitude, 3) + units[k];
  }

  /* A number in its unit: "B" bytes, "s" seconds, "%" of 1, anything else in thousands. */
  function format(value, unit) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (unit === "B") return scaled(value, 1024, ["\u00a0B", "\u00a0KiB", "\u00a0MiB", "\u00a0GiB", "\u00a0TiB"]);
    if (unit === "%") return digits(value * 100, Math.abs(value) > 0.99 && Math.abs(value) < 0.9995 ? 4 : 3) + "\u00a0%";
    if (unit === "s") return duration(value);
    return scaled(value, 1000, ["", "k", "M", "G", "T"]) + (unit ? `\u00a0${unit}` : "");
  }

  function duration(seconds) {
    const magnitude = Math.abs(seconds);
    if (magnitude === 0) return "0\u00a0s";
    if (magnitude < 1e-3) return digits(seconds * 1e6, 3) + "\u00a0µs";
    if (magnitude < 0.9995) return digits(seconds * 1e3, 3) + "\u00a0ms";
    if (magnitude < 120) return digits(seconds, 3) + "\u00a0s";
    if (magnitude < 7200) return digits(seconds / 60, 3) + "\u00a0min";
    if (magnitude < 172800) return digits(seconds / 3600, 3) + "\u00a0h";
    return digits(seconds / 86400, 3) + "\u00a0d";
  }

  /* The unit that seconds are shown in on an axis up to `top`, and how many seconds it has. */
  const timeUnit = (top) => (top < 1e-3 ? [1e-6, "µs"] : top < 1 ? [1e-3, "ms"] : top < 120 ? [1, "s"]
    : top < 7200 ? [60, "min"] : top < 172800 ? [3600, "h"] : [86400, "d"]);

  /* On an axis all labels have one unit; small numbers have a power of ten in common, shown as `factor`. */
  function labels(ticks, unit) {
    const top = Math.max(...ticks.map(Math.abs));
    if (unit === "s") {
      const [seconds, name] = timeUnit(top);
      return { texts: ticks.map((tick) => `${digits(tick / seconds, 3)} ${name}`), factor: "" };
    }
    if (unit === "B" || unit === "%") return { texts: ticks.map((tick) => format(tick, unit)), factor: "" };
    const power = top > 0 && top < 1e-2 ? Math.floor(Math.log10(top)) : 0;
    const texts = ticks.map((tick) => scaled(tick / 10 ** power, 1000, ["", "k", "M", "G", "T"]));
    return { texts, factor: power ? `×10${superscript(power)}` : "" };
  }

  function clock(time, seconds) {
    return new Date(time).toLocaleTimeString("en-GB", {
      hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined,
    });
  }

  // -- axes -----------------------------------------------------------------------------------------------

  const MINUTES = [1, 2, 5, 10, 15, 20, 30, 60, 120], HOURS = [1, 2, 3, 4, 6, 12, 24, 48];

  /* The smallest round step that is no smaller than `raw`, in the unit that the labels will have. */
  function roundStep(raw, high, unit) {
    if (unit === "B") return 2 ** Math.ceil(Math.log2(raw));
    const [seconds, name] = unit === "s" ? timeUnit(high) : [1, ""];
    const wanted = raw / seconds;
    const steps = { min: MINUTES, h: HOURS }[name];
    const found = steps && steps.find((step) => step >= wanted * 0.999);
    if (found) return found * seconds;
    const power = 10 ** Math.floor(Math.log10(wanted));
    return seconds * [1, 2, 2.5, 5, 10].map((m) => m * power).find((step) => step >= wanted * 0.999);
  }

  function ticks(low, high, count, unit) {
    if (!(high > low)) return [low];
    const step = roundStep((high - low) / count, Math.max(Math.abs(low), Math.abs(high)), unit);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) found.push(k * step);
    return found;
  }

  function times(low, high, count) {
    const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 604800];
    const raw = (high - low) / 1000 / count;
    const step = (steps.find((s) => s >= raw) || Math.ceil(raw / 604800) * 604800) * 1000;
    const offset = new Date(low).getTimezoneOffset() * 60000;
    const found = [];
    for (let t = Math.ceil((low - offset) / step) * step + offset; t <= high; t += step) found.push(t);
    const label = (t) => (step >= 86400000 ? new Date(t).toLocaleDateString("en-GB", { day: "numeric", month: "short" })
      : clock(t, step < 60000));
    return { found, label };
  }

  const extent = (lists) => {
    let low = Infinity, high = -Infinity;
    for (const list of lists) {
      for (const value of list) {
        if (value === null || value === undefined || !Number.isFinite(value)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    }
    return low <= high ? [low, high] : null;
  };

  return { html, svg, colour, format, labels, clock, ticks, times, extent };
})();
