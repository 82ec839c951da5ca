"use strict";
/* The panels of a join. Each says what it needs to be shown, draws itself once, and is then updated.

   A panel: {title, unit, size ("third", "half" or "wide"), about, missing(join, chosen) -> why it is not
   shown, if it may be; build(body) -> update(join, chosen)}. `chosen` has marks, a partition and the models it has learned. */

const Panels = (() => {
  const { html, format } = Drawing;
  const MOST_QUERIES = 8; // drawn as lines; the table has more
  const MOST_ROWS = 50;
  const NONE = { results: 0, response_mean: null, response_p99: null, backlog_rows: 0 }; // of a query without results in a batch

  const aliases = (join) => Object.keys(join.streams);
  const column = (join, read) => join.points.map((point) => { const value = read(point); return value === undefined ? null : value; });
  const any = (join, read) => join.points.some((point) => read(point));
  const inRows = (join) => join.partitions.some((p) => (p.memory_limit || "").endsWith("rows"));
  const sum = (values) => values.reduce((a, b) => a + b, 0);

  const overTime = (join, chosen, unit, series, more) => ({
    kind: "time", x: join.points.map((point) => point.at), unit, series, marks: chosen.marks,
    note: (at) => {
      const { batch, batches } = join.points[at];
      return batches > 1 ? `batches ${batch - batches + 1} to ${batch}` : `batch ${batch}`;
    },
    ...more,
  });

  function timeline(unit, series, more) {
    return (body) => {
      const chart = Charts.line(body);
      return (join, chosen) => {
        const real = typeof unit === "function" ? unit(join) : unit;
        chart.show(overTime(join, chosen, real, series(join), more ? more(join) : {}));
      };
    };
  }

  // -- lost rows -----------------------------------------------------------------------------------------

  /* Causes of lost rows that occurred, with how to read them from a point and their colour. */
  const losses = (join) => [
    ...Object.keys(join.total.lost).map((cause) => [cause, (p) => p.lost[cause] || 0]), ["results too late", (p) => p.results_late],
  ].map(([cause, read], k) => [cause, read, k + 2]).filter(([, read]) => read(join.total) > 0);

  // -- backlog -------------------------------------------------------------------------------------------

  const backlogs = (point) => sum(Object.values(point.queries).map((q) => q.backlog_rows));
  const BACKLOG = [
    ["rows buffered", (p) => p.rows_buffered, 1], ["rows in the backlog of queries", backlogs, 2],
    ["offsets behind in the source", (p) => p.offsets_behind || 0, 4],
  ];

  // -- small charts side by side ---------------------------------------------------------------------------

  /* Charts that come and go with the data, each under its caption. */
  function smallCharts(body, make) {
    const grid = html("div", { class: "few" });
    body.append(grid);
    const known = new Map();
    return (specs) => {
      const names = new Set(specs.map(([name]) => name));
      for (const [name, shown] of known) if (!names.has(name)) { shown.figure.remove(); known.delete(name); }
      for (const [name, spec] of specs) {
        let shown = known.get(name);
        if (!shown) {
          const host = html("div", {});
          shown = { figure: html("figure", {}, html("figcaption", {}, name), host), chart: null };
          grid.append(shown.figure);
          shown.chart = make(host);
          known.set(name, shown);
        }
        shown.chart.show(spec);
      }
    };
  }

  // -- the harvest, as GrubJoin's Figures 3 and 4 draw it -------------------------------------------------------

  function harvest(body) {
    const host = html("div", { class: "strips" });
    body.append(host);
    return (join, chosen) => {
      const { harvest: plan, windows } = chosen.learned;
      const names = Object.keys(windows);
      host.replaceChildren();
      plan.directions.forEach((direction, arriving) => {
        const idle = direction.hops.some((hop) => hop.fraction === 0);
        const block = html("section", {}, html("h3", {}, `when ${names[arriving]} arrives`,
          html("small", {}, idle ? "nothing is probed" : `${format(direction.output, "")} results/s expected`)));
        host.append(block);
        const sameSize = new Set(direction.hops.map((hop) => plan.sizes[hop.stream])).size === 1;
        const label = (hop) => names[hop.stream] + (sameSize ? "" : ` (${format(plan.sizes[hop.stream], "s")})`);
        direction.hops.forEach((hop) => {
          const strip = html("div", {});
          block.append(html("div", { class: "strip" }, html("span", { class: "of", title: names[hop.stream] }, label(hop)), strip,
            html("span", { class: "summary" }, `z ${hop.fraction.toFixed(2)} · finds ${format(hop.found, "%")}`)));
          const ranks = new Array(plan.counts[hop.stream]).fill(null);
          hop.best.forEach((window, position) => { ranks[window] = position + 1; });
          Charts.strip(strip).show({
            count: plan.counts[hop.stream], size: plan.sizes[hop.stream], pieces: hop.pieces, ranks, unit: "s", height: 18,
          });
        });
        if (sameSize) {
          block.append(html("div", { class: "strip scale" }, html("span", {}),
            html("span", {}, html("span", {}, "age 0 s"), html("span", {}, format(plan.sizes[direction.hops[0].stream], "s")))));
        }
      });
    };
  }

  // -- queries and partitions ----------------------------------------------------------------------------------

  function queries(body) {
    const chart = Charts.line(body.appendChild(html("div", {})));
    const table = body.appendChild(html("div", {}));
    return (join, chosen) => {
      const names = Object.keys(join.total.queries);
      const latest = join.latest.queries;
      const slowest = [...names].sort((a, b) => ((latest[b] || NONE).response_p99 || 0) - ((latest[a] || NONE).response_p99 || 0)).slice(0, MOST_QUERIES);
      chart.show(overTime(join, chosen, "s", names.filter((n) => slowest.includes(n)).map((name) => ({
        name, values: column(join, (p) => (p.queries[name] || NONE).response_p99),
      }))));
      Charts.table(table,
        [{ name: "query", left: true, text: true }, { name: "results" }, { name: "in the last batch" }, { name: "response, mean" },
          { name: "99 %" }, { name: "backlog rows" }],
        names.slice(0, MOST_ROWS).map((name) => {
          const q = latest[name] || NONE;
          return [name, format(join.total.queries[name].results), format(q.results), format(q.response_mean, "s"),
            format(q.response_p99, "s"), format(q.backlog_rows)];
        }));
    };
  }

  function partitions(body) {
    const summary = body.appendChild(html("p", { class: "why" }));
    const table = body.appendChild(html("div", {}));
    return (join) => {
      const most = Math.max(1, ...join.partitions.map((p) => p.rows_in + p.rows_copied));
      const unit = inRows(join) ? "" : "B";
      const deadline = join.partitions.some((p) => p.deadline_seconds !== null);
      const limit = join.partitions.some((p) => p.memory_limit_size !== null);
      const shown = [...join.partitions].sort((a, b) => a.partition - b.partition);
      const more = join.partitions_known - shown.length;
      summary.textContent = `skew ${join.latest.skew.toFixed(2)} (rows of the fullest partition over the mean)${more > 0 ? `; ${more} more with fewer rows are not shown` : ""}`;
      const columns = [{ name: "partition", left: true }, { name: "rows in its last batch" }, { name: "results" }, { name: "window rows" },
        { name: limit ? "memory of its share" : "memory" }, { name: deadline ? "time of its share" : "time" },
        ...(deadline ? [{ name: "throttle" }] : []), { name: "hottest key of a sample", left: true, text: true }];
      Charts.table(table, columns, shown.map((p) => {
        const memory = unit ? p.memory_bytes : p.window_rows;
        const size = format(memory, unit), seconds = format(p.seconds, "s");
        return [
          String(p.partition), { text: format(p.rows_in + p.rows_copied), fraction: (p.rows_in + p.rows_copied) / most },
          format(p.results), format(p.window_rows),
          p.memory_limit_size === null ? size : { text: size, fraction: memory / p.memory_limit_size },
          p.deadline_seconds === null ? seconds : { text: seconds, fraction: p.seconds / p.deadline_seconds },
          ...(deadline ? [format(p.throttle_fraction, "%")] : []),
          p.hot_key === null ? "" : `${p.hot_key} (${format(p.hot_key_share, "%")})`,
        ];
      }));
    };
  }

  function streams(body) {
    const table = body.appendChild(html("div", {}));
    return (join, chosen) => {
      const windows = chosen.learned ? chosen.learned.windows : {};
      const causes = Object.keys(join.total.lost).filter((cause) => join.total.lost[cause] > 0);
      Charts.table(table,
        [{ name: "stream", left: true, text: true }, { name: "window", left: true }, { name: "rows so far" }, { name: "filtered out" },
          ...causes.map((name) => ({ name })), { name: "rows in window" }, { name: "memory" }, { name: "max event time" }],
        Object.entries(join.streams).map(([alias, s]) => [
          alias, windows[alias] || "", format(s.rows_in), format(s.rows_filtered), ...causes.map((cause) => format(s.lost[cause])),
          format(s.window_rows), format(s.memory_bytes, "B"),
          s.max_event_time === null ? "–" : new Date(s.max_event_time / 1000).toISOString().replace("T", " ").slice(0, 19),
        ]));
    };
  }

  /* Lines that are too long are folded below their own indentation. */
  function plan(body) {
    const text = body.appendChild(html("div", { class: "code" }));
    return (join, chosen) => {
      text.replaceChildren(...chosen.learned.plan.split("\n").map((line) => {
        const rest = line.trimStart();
        return html("div", { style: { marginLeft: `${line.length - rest.length}ch` } }, rest);
      }));
    };
  }

  const deadline = (join) => any(join, (p) => p.deadline_seconds !== null);
  const unlearned = (chosen, what) => (chosen.learned ? null : `${what}: no partition has reported its models yet`);

  const all = [
    {
      title: "Rows in", unit: "rows/s", size: "third", about: "of each stream, since the batch before",
      build: timeline("", (join) => aliases(join).map((alias, k) => ({ name: alias, color: k + 1, values: column(join, (p) => p.input_rates[alias]) }))),
    },
    {
      title: "Results", unit: "results/s", size: "third", about: "results of the join",
      build: timeline("", (join) => [{ name: "results", color: 3, fill: true, values: column(join, (p) => p.output_rate) }]),
    },
    {
      title: "Recall", unit: "fraction of the true results", size: "third", about: "estimate of each batch, and its 95 % interval",
      missing: (join) => (any(join, (p) => p.has_limits) ? null : "Recall: neither memory nor time has a limit, so the answer is exact"),
      build: timeline("%", (join) => [{
        name: "recall", color: 3, values: column(join, (p) => (p.recall ? p.recall[0] : null)),
        low: column(join, (p) => (p.recall ? p.recall[1] : null)), high: column(join, (p) => (p.recall ? p.recall[2] : null)),
      }], () => ({ top: 1, bottom: 0 })),
    },
    {
      title: "Memory", size: "third", about: "window contents and limit",
      build: timeline((join) => (inRows(join) ? "rows" : "B"), (join) => [
        { name: "windows", color: 1, fill: true, values: column(join, (p) => p.memory_size) },
        ...(any(join, (p) => p.memory_limit_size !== null) ? [{ name: "limit", color: 7, dash: true, values: column(join, (p) => p.memory_limit_size) }] : []),
      ]),
    },
    {
      title: "Batch time", size: "third", about: "whole batch; slowest partition against its deadline",
      build: timeline("s", (join) => [
        { name: "batch", color: 8, values: column(join, (p) => p.seconds) },
        { name: "slowest partition", color: 1, values: column(join, (p) => p.slowest_partition_seconds) },
        ...(any(join, (p) => p.deadline_seconds !== null) ? [{ name: "deadline", color: 7, dash: true, values: column(join, (p) => p.deadline_seconds) }] : []),
      ]),
    },
    {
      title: "Throttle fraction", unit: "of the full work", size: "third", about: "fraction of the work done in time",
      missing: (join) => (deadline(join) ? null : "Throttle fraction: there is no deadline, so all of the work is done"),
      build: timeline("%", (join) => [{ name: "throttle", color: 2, fill: true, values: column(join, (p) => p.throttle_fraction) }],
        () => ({ top: 1, bottom: 0 })),
    },
    {
      title: "Rows lost", unit: "rows/s", size: "third", about: "late, evicted for lack of memory, dropped for lack of time",
      missing: (join) => (losses(join).length ? null : "Rows lost: none so far, no row was late, evicted or dropped"),
      build: timeline("", (join) => losses(join).map(([name, read, color]) => ({
        name, color, values: column(join, (p) => read(p) / Math.max(p.span, 0.001)),
      })), () => ({ stack: true })),
    },
    {
      title: "Backlog", unit: "rows", size: "third", about: "rows that wait: for their order, for time, or in the source",
      missing: (join) => (BACKLOG.some(([, read]) => any(join, read)) ? null : "Backlog: nothing waits"),
      build: timeline("", (join) => BACKLOG.filter(([, read]) => any(join, read)).map(([name, read, color]) => ({
        name, color, values: column(join, read),
      }))),
    },
    {
      title: "Skew", unit: "fullest partition : mean", size: "third", about: "1 is even; above 1 a batch waits for one partition",
      missing: (join) => (join.partitions_known > 1 ? null : "Skew: there is one partition"),
      build: timeline("", (join) => [{ name: "skew", color: 4, values: column(join, (p) => p.skew) }],
        (join) => ({ bottom: 1, top: Math.max(2, ...join.points.map((p) => p.skew * 1.05)) })),
    },
    {
      title: "Age curves", unit: "results/s of a stored row, by its age", size: "half",
      about: "learned: at which age rows still find something, and are worth their memory",
      missing: (join, chosen) => {
        if (!any(join, (p) => p.memory_limit_size !== null)) return "Age curves: memory has no limit, so nothing has to be learned";
        if (!chosen.learned) return unlearned(chosen, "Age curves");
        if (Object.keys(chosen.learned.ages).length) return null;
        return `Age curves: the policy ${chosen.learned.shed} has learned none`;
      },
      build: (body) => {
        const update = smallCharts(body, (host) => Charts.spans(host));
        return (join, chosen) => update(Object.entries(chosen.learned.ages).map(([alias, ages]) => [alias, {
          ...ages, name: "results/s", color: aliases(join).indexOf(alias) + 1, unit: "", xUnit: "s", xName: "age", height: 120,
        }]));
      },
    },
    {
      title: "Lags", unit: "weight of results, by how far apart in time their rows are", size: "half",
      about: "learned: where in the other windows an arriving row finds its matches",
      missing: (join, chosen) => {
        if (!deadline(join)) return "Lags: without a deadline all of every window is probed, so they are not learned";
        if (!chosen.learned) return unlearned(chosen, "Lags");
        return chosen.learned.lags.length ? null : `Lags: none learned (${chosen.learned.shed || "no policy"})`;
      },
      build: (body) => {
        const update = smallCharts(body, (host) => Charts.spans(host));
        return (join, chosen) => update(chosen.learned.lags.map((lag, k) => [`${lag.of} after ${lag.behind}`, {
          low: lag.low, width: lag.width, values: lag.values, name: "results", color: k + 1, unit: "", xUnit: "s", xName: "lag", height: 120,
        }]));
      },
    },
    {
      title: "Harvest", unit: "basic windows by age, the youngest at the left", size: "wide",
      about: "which parts of the windows an arriving row probes (filled; numbers rank them), in its join order",
      missing: (join, chosen) => {
        if (!deadline(join)) return "Harvest: without a deadline all of every window is probed";
        if (!chosen.learned) return unlearned(chosen, "Harvest");
        return chosen.learned.harvest ? null : "Harvest: there is time for everything, all of every window is probed";
      },
      build: harvest,
    },
    {
      title: "Queries", unit: "response time of the slowest 1 %", size: "wide", about: "from the batch that brought a result's newest row to the delivery",
      missing: (join) => (Object.keys(join.total.queries).length ? null : "Queries: the join is not shared by several"),
      build: queries,
    },
    { title: "Partitions", size: "wide", build: partitions },
    { title: "Streams", size: "wide", build: streams },
    {
      title: "Plan", unit: "join orders and access paths", size: "wide",
      missing: (join, chosen) => (chosen.learned && chosen.learned.plan ? null : "Plan: no partition has reported it yet"),
      build: plan,
    },
  ];

  // -- tiles -----------------------------------------------------------------------------------

  function tiles(join) {
    const { latest, total } = join;
    const found = [];
    found.push({ name: "Rows in", value: format(sum(Object.values(latest.input_rates))), unit: "/s", notes: `${format(total.rows_in)} in all` });
    found.push({ name: "Results", value: format(latest.output_rate), unit: "/s", notes: `${format(total.results)} in all` });
    if (latest.has_limits) {
      const [estimate, low, high] = latest.recall || [null, 0, 1];
      const range = `interval ${format(low, "%").replace("\u00a0%", "")} to ${format(high, "%")}`;
      const late = total.rows_late > 0 ? `${format(total.rows_late)} late rows not counted` : null;
      found.push({
        name: "Recall, last batch", value: estimate === null ? "unknown" : format(estimate, "%"), fraction: estimate, interval: [low, high],
        notes: [range, total.recall ? `whole run: ${format(total.recall[0], "%")}` : null, late],
      });
    } else {
      found.push({ name: "Recall", value: "exact", notes: "no limit is set" });
    }
    if (latest.deadline_seconds !== null) {
      found.push({ name: "Throttle fraction", value: format(latest.throttle_fraction, "%"), notes: "of the full work", fraction: latest.throttle_fraction });
    }
    const unit = inRows(join) ? "rows" : "B";
    const full = latest.memory_limit_size === null ? null : latest.memory_size / latest.memory_limit_size;
    found.push({
      name: "Memory", value: format(latest.memory_size, unit === "B" ? "B" : ""), notes: latest.memory_limit_size === null
        ? `${format(latest.window_rows)} rows, no limit` : `of ${format(latest.memory_limit_size, unit)}`, fraction: full,
    });
    const late = latest.deadline_seconds === null ? null : latest.slowest_partition_seconds / latest.deadline_seconds;
    found.push({
      name: latest.deadline_seconds === null ? "Batch" : "Slowest partition", value: format(latest.deadline_seconds === null ? latest.seconds : latest.slowest_partition_seconds, "s"),
      notes: latest.deadline_seconds === null ? `batch ${latest.batch}` : [`of ${format(latest.deadline_seconds, "s")}`, `whole batch: ${format(latest.seconds, "s")}`],
      fraction: late, level: late !== null && late > 1.2 ? "warn" : null,
    });
    const lost = sum(Object.values(total.lost));
    found.push({
      name: "Rows lost", value: format(lost),
      notes: [total.rows_in ? `${format(lost / total.rows_in, "%")} of all` : null, total.files_skipped ? `and ${format(total.files_skipped)} files skipped` : null],
    });
    const waiting = latest.rows_buffered + backlogs(latest);
    if (waiting || latest.offsets_behind) found.push({ name: "Backlog", value: format(waiting + (latest.offsets_behind || 0)), notes: "rows wait" });
    return found;
  }

  return { all, tiles };
})();
