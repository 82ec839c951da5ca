"use strict";
/* The page: polls for data every second while it is visible, or shows the data it was written with.

   It outlives the query: without a connection it says so and keeps polling, and after a restart it appends the new
   points to the old ones, with a mark between them. */

(() => {
  const { html, clock } = Drawing;
  const POLL_MS = 1000, SLOWEST_POLL_MS = 5000, MOST_POINTS = 1200;
  const STATES = {
    waiting: ["waiting for the first batch", "warn"], running: ["live", "good"], stopped: ["stopped", ""],
    done: ["done", ""], failed: ["failed", "bad"], recorded: ["recorded", ""], disconnected: ["no connection", "warn"],
  };

  const page = document.getElementById("page");
  const view = {
    run: null, joins: {}, revision: null, earlier: new Map(), marks: [], join: null, partition: null,
    disconnected: null, restarted: null, failures: 0,
  };

  // -- the frame ------------------------------------------------------------------------------------------------

  const name = html("h1", {}, "windrow");
  const pill = html("span", { class: "pill" }, "connecting");
  const status = html("span", { class: "status" });
  const joinSelect = html("select", { hidden: "", "aria-label": "join" });
  const partitionSelect = html("select", { hidden: "", "aria-label": "partition whose learned models are shown" });
  const query = html("p", { class: "query", hidden: "" });
  const notice = html("p", { class: "notice", hidden: "", role: "status" });
  const tiles = html("div", { class: "tiles" });
  const panels = html("div", { class: "panels" });
  const notShown = html("div", { class: "not-shown" });
  const foot = html("footer", { class: "foot" });
  page.append(html("header", { class: "top" }, name, pill, status, html("span", { class: "push" }, joinSelect, " ", partitionSelect)),
    html("main", {}, query, notice, tiles, panels, notShown), foot);
  joinSelect.addEventListener("change", () => { view.join = joinSelect.value; view.partition = null; rebuild(); });
  partitionSelect.addEventListener("change", () => { view.partition = partitionSelect.value; show(); });

  // -- panels -----------------------------------------------------------------------------------------------------

  let built = [];

  function rebuild() {
    panels.replaceChildren();
    built = Panels.all.map((panel) => {
      const body = html("div", {});
      const section = html("section", { class: `panel ${panel.size}`, hidden: "" },
        html("h2", {}, panel.title, panel.unit ? html("span", { class: "unit" }, panel.unit) : null),
        panel.about ? html("p", { class: "why" }, panel.about) : null, body);
      panels.append(section);
      return { panel, section, body, update: null };
    });
    show();
  }

  function options(select, values, chosen, label) {
    const key = values.join("\n");
    if (select.dataset.values !== key) {
      select.dataset.values = key;
      select.replaceChildren(...values.map((value) => html("option", { value }, label(value))));
    }
    select.hidden = values.length < 2;
    if (chosen !== null) select.value = chosen;
  }

  /* The points of a join, with those of the runs before this one. */
  function joined(join) {
    const { points } = view.joins[join];
    return [...(view.earlier.get(join) || []).filter((point) => point.at < points[0].at), ...points];
  }

  function show() {
    const names = Object.keys(view.joins);
    if (!names.includes(view.join)) view.join = names.length ? names[0] : null;
    options(joinSelect, names, view.join, (value) => value);
    header();
    for (const element of [tiles, panels, notShown]) element.hidden = view.join === null;
    if (view.join === null) return;
    const join = { ...view.joins[view.join], points: joined(view.join) };
    const reported = Object.keys(join.learned_models);
    if (!reported.includes(view.partition)) view.partition = reported.length ? reported[0] : null;
    options(partitionSelect, reported, view.partition, (value) => `learned by partition ${value}`);
    const chosen = { marks: view.marks, partition: view.partition, learned: view.partition === null ? null : join.learned_models[view.partition] };
    describe(chosen.learned);
    tiles.replaceChildren(...Panels.tiles(join).map(tile));
    const missing = [];
    for (const each of built) {
      const why = each.panel.missing ? each.panel.missing(join, chosen) : null;
      each.section.hidden = why !== null;
      if (why !== null) { missing.push(why); continue; }
      if (!each.update) each.update = each.panel.build(each.body);
      each.update(join, chosen);
    }
    notShown.replaceChildren(...(missing.length ? ["Not shown:", html("ul", {}, ...missing.map((why) => html("li", {}, why)))] : []));
  }

  /* What is joined, and under which limits. */
  function describe(learned) {
    query.hidden = !learned;
    if (!learned) return;
    const limits = [["memory", learned.memory], ["deadline", learned.deadline], ["shed", learned.shed]]
      .filter(([, value]) => value).map(([what, value]) => `${what} ${value}`);
    query.replaceChildren(html("code", {}, learned.on), limits.length ? ` · ${limits.join(" · ")}` : "");
  }

  const percent = (fraction) => `${100 * Math.min(1, Math.max(0, fraction))}%`;

  /* A bar of `fraction`; or the `interval` of an estimate, with `fraction` as a mark in it. */
  function meter({ fraction, interval, level }) {
    if (interval) {
      const [low, high] = interval;
      const estimate = fraction === null || fraction === undefined ? null : html("b", { style: { left: percent(fraction) } });
      return html("div", { class: "meter interval" }, html("i", { style: { left: percent(low), width: percent(high - low) } }), estimate);
    }
    if (fraction === undefined || fraction === null) return null;
    return html("div", { class: "meter" }, html("i", { class: level, style: { width: percent(fraction) } }));
  }

  function tile(spec) {
    const { name: title, value, unit, notes, level } = spec;
    const shown = html("div", { class: "value" }, value, unit ? html("small", {}, unit) : null);
    const lines = [notes].flat().filter(Boolean).map((line) => html("div", {}, line));
    return html("div", { class: `tile ${level || ""}`.trim() }, html("div", { class: "name" }, title), shown,
      html("div", { class: "notes" }, ...lines), meter(spec));
  }

  function header() {
    const { run } = view;
    if (run) {
      name.textContent = run.name;
      document.title = `${run.name} · windrow`;
      foot.textContent = `windrow ${run.version}`;
    }
    const ended = run && !["waiting", "running"].includes(run.state);
    const [label, level] = STATES[view.disconnected && !ended ? "disconnected" : run ? run.state : "waiting"] || [run.state, ""];
    pill.textContent = label;
    pill.className = `pill ${level}`;
    const join = view.join === null ? null : view.joins[view.join];
    const early = run && run.state === "running" ? "no batch with rows yet" : "";
    status.textContent = join ? `batch ${join.latest.batch.toLocaleString("en")} ended ${clock(join.latest.at, true)}` : early;
    const errors = join && join.control_errors.length ? `Control messages refused: ${join.control_errors.join("; ")}` : null;
    const texts = [
      run && run.state === "failed" ? `The query failed: ${run.error}` : null,
      view.disconnected && !ended ? `No answer since ${clock(view.disconnected, true)}: the query was stopped or is restarting. This page keeps polling and shows the last data.` : null,
      view.disconnected && ended ? "The run has ended. If it is started again on this port, this page continues." : null,
      !view.disconnected && view.restarted ? `Reconnected: the query was started again at ${clock(view.restarted, true)}.` : null,
      errors,
    ].filter(Boolean);
    notice.hidden = !texts.length;
    notice.className = run && run.state === "failed" ? "notice bad" : "notice";
    notice.textContent = texts.join(" ");
  }

  // -- the data -----------------------------------------------------------------------------------------------------

  function receive(data) {
    if (view.run && data.run.id !== view.run.id) {
      view.restarted = data.run.began;
      view.marks.push({ x: data.run.began, text: "restart" });
      for (const join of Object.keys(view.joins)) view.earlier.set(join, joined(join).slice(-MOST_POINTS));
    }
    view.run = data.run;
    view.revision = data.revision;
    // Until the first batch of a run that was started again, the last one is shown.
    if (data.joins && (Object.keys(data.joins).length || !view.restarted)) view.joins = data.joins;
  }

  async function poll() {
    let data = null;
    try {
      const response = await fetch(`data?since=${encodeURIComponent(view.revision || "")}`, { cache: "no-store" });
      if (response.ok) data = await response.json();
    } catch {
      data = null; // no server, or it went away during the response
    }
    view.failures = data ? 0 : view.failures + 1;
    setTimeout(schedule, Math.min(SLOWEST_POLL_MS, POLL_MS * Math.max(1, view.failures)));
    if (data) {
      const changed = data.revision !== view.revision || view.disconnected;
      view.disconnected = null;
      receive(data);
      if (changed) { show(); return; }
    } else {
      view.disconnected = view.disconnected || Date.now();
    }
    header();
  }

  function schedule() {
    if (!document.hidden) { poll(); return; }
    document.addEventListener("visibilitychange", schedule, { once: true });
  }

  rebuild();
  const embedded = document.getElementById("data");
  if (embedded) {
    receive(JSON.parse(embedded.textContent));
    show();
  } else {
    poll();
  }
})();
