"use strict";
/* The page: asks for data every second while it is looked at, or shows what it was written with.

   It outlives the query it shows: while nobody answers it says so and asks on, and when the query was started
   again it goes on with the new figures behind the old ones, with a mark between them. */

(() => {
  const { html, clock } = Figures;
  const EVERY = 1000, SLOWEST = 5000, MOST_POINTS = 1200;
  const STATES = {
    waiting: ["waiting for the first batch", "warn"], running: ["live", "good"], stopped: ["stopped", ""],
    done: ["done", ""], failed: ["failed", "bad"], recorded: ["recorded", ""], lost: ["no connection", "warn"],
  };

  const page = document.getElementById("page");
  const view = {
    run: null, joins: {}, mark: null, earlier: new Map(), marks: [], chosen: null, partition: null,
    lost: null, restarted: null, failures: 0,
  };

  // -- the frame ------------------------------------------------------------------------------------------------

  const name = html("h1", {}, "windrow");
  const pill = html("span", { class: "pill" }, "asking");
  const said = html("span", { class: "said" });
  const choice = html("select", { hidden: "", "aria-label": "join" });
  const speaker = html("select", { hidden: "", "aria-label": "partition whose learned models are shown" });
  const query = html("p", { class: "query", hidden: "" });
  const notice = html("p", { class: "notice", hidden: "", role: "status" });
  const tiles = html("div", { class: "tiles" });
  const panels = html("div", { class: "panels" });
  const unseen = html("div", { class: "unseen" });
  const foot = html("footer", { class: "foot" });
  page.append(html("header", { class: "top" }, name, pill, said, html("span", { class: "push" }, choice, " ", speaker)),
    html("main", {}, query, notice, tiles, panels, unseen), foot);
  choice.addEventListener("change", () => { view.chosen = choice.value; view.partition = null; rebuild(); });
  speaker.addEventListener("change", () => { view.partition = speaker.value; show(); });

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
    const wanted = values.join("\n");
    if (select.dataset.values !== wanted) {
      select.dataset.values = wanted;
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
    if (!names.includes(view.chosen)) view.chosen = names.length ? names[0] : null;
    options(choice, names, view.chosen, (value) => value);
    header();
    for (const element of [tiles, panels, unseen]) element.hidden = view.chosen === null;
    if (view.chosen === null) return;
    const join = { ...view.joins[view.chosen], points: joined(view.chosen) };
    const told = Object.keys(join.learned_models);
    if (!told.includes(view.partition)) view.partition = told.length ? told[0] : null;
    options(speaker, told, view.partition, (value) => `learned by partition ${value}`);
    const chosen = { marks: view.marks, partition: view.partition, learned: view.partition === null ? null : join.learned_models[view.partition] };
    describe(chosen.learned);
    tiles.replaceChildren(...Panels.tiles(join).map(tile));
    const missing = [];
    for (const each of built) {
      const why = each.panel.lacks(join, chosen);
      each.section.hidden = why !== null;
      if (why !== null) { missing.push(why); continue; }
      if (!each.update) each.update = each.panel.build(each.body);
      each.update(join, chosen);
    }
    unseen.replaceChildren(...(missing.length ? ["Not shown:", html("ul", {}, ...missing.map((why) => html("li", {}, why)))] : []));
  }

  /* What is joined, and under which limits. */
  function describe(learned) {
    query.hidden = !learned;
    if (!learned) return;
    const limits = [["memory", learned.memory], ["deadline", learned.deadline], ["shed", learned.shed]]
      .filter(([, value]) => value).map(([what, value]) => `${what} ${value}`);
    query.replaceChildren(html("code", {}, learned.on), limits.length ? ` · ${limits.join(" · ")}` : "");
  }

  const percent = (part) => `${100 * Math.min(1, Math.max(0, part))}%`;

  /* `part` of 1 is a bar; `between` draws an interval of 0..1 with the estimate `part` as a mark in it. */
  function meter({ part, between, mood }) {
    if (between) {
      const [low, high] = between;
      const estimate = part === null || part === undefined ? null : html("b", { style: { left: percent(part) } });
      return html("div", { class: "meter interval" }, html("i", { style: { left: percent(low), width: percent(high - low) } }), estimate);
    }
    if (part === undefined || part === null) return null;
    return html("div", { class: "meter" }, html("i", { class: mood, style: { width: percent(part) } }));
  }

  function tile(figure) {
    const { name: title, value, unit, beside, mood } = figure;
    const shown = html("div", { class: "value" }, value, unit ? html("small", {}, unit) : null);
    const lines = [beside].flat().filter(Boolean).map((line) => html("div", {}, line));
    return html("div", { class: `tile ${mood || ""}`.trim() }, html("div", { class: "name" }, title), shown,
      html("div", { class: "beside" }, ...lines), meter(figure));
  }

  function header() {
    const { run } = view;
    if (run) {
      name.textContent = run.name;
      document.title = `${run.name} · windrow`;
      foot.textContent = `windrow ${run.version}`;
    }
    const over = run && !["waiting", "running"].includes(run.state);
    const [label, mood] = STATES[view.lost && !over ? "lost" : run ? run.state : "waiting"] || [run.state, ""];
    pill.textContent = label;
    pill.className = `pill ${mood}`;
    const join = view.chosen === null ? null : view.joins[view.chosen];
    const early = run && run.state === "running" ? "no batch with rows yet" : "";
    said.textContent = join ? `batch ${join.latest.batch.toLocaleString("en")} ended ${clock(join.latest.at, true)}` : early;
    const errors = join && join.control_errors.length ? `Control messages refused: ${join.control_errors.join("; ")}` : null;
    const texts = [
      run && run.state === "failed" ? `The query failed: ${run.error}` : null,
      view.lost && !over ? `No answer since ${clock(view.lost, true)}: the query was stopped or is restarting. This page keeps polling and shows the last data.` : null,
      view.lost && over ? "The run has ended. If it is started again on this port, this page continues." : null,
      !view.lost && view.restarted ? `Reconnected: the query was started again at ${clock(view.restarted, true)}.` : null,
      errors,
    ].filter(Boolean);
    notice.hidden = !texts.length;
    notice.className = run && run.state === "failed" ? "notice bad" : "notice";
    notice.textContent = texts.join(" ");
  }

  // -- the data -----------------------------------------------------------------------------------------------------

  function take(told) {
    if (view.run && told.run.id !== view.run.id) {
      view.restarted = told.run.began;
      view.marks.push({ x: told.run.began, text: "restart" });
      for (const join of Object.keys(view.joins)) view.earlier.set(join, joined(join).slice(-MOST_POINTS));
    }
    view.run = told.run;
    view.mark = told.mark;
    // Until the first batch of a run that was started again, the last one is shown.
    if (told.joins && (Object.keys(told.joins).length || !view.restarted)) view.joins = told.joins;
  }

  async function ask() {
    let told = null;
    try {
      const answer = await fetch(`data?seen=${encodeURIComponent(view.mark || "")}`, { cache: "no-store" });
      if (answer.ok) told = await answer.json();
    } catch {
      told = null; // nobody there, or gone in mid-answer
    }
    view.failures = told ? 0 : view.failures + 1;
    setTimeout(next, Math.min(SLOWEST, EVERY * Math.max(1, view.failures)));
    if (told) {
      const changed = told.mark !== view.mark || view.lost;
      view.lost = null;
      take(told);
      if (changed) { show(); return; }
    } else {
      view.lost = view.lost || Date.now();
    }
    header();
  }

  function next() {
    if (!document.hidden) { ask(); return; }
    document.addEventListener("visibilitychange", next, { once: true });
  }

  rebuild();
  const written = document.getElementById("data");
  if (written) {
    take(JSON.parse(written.textContent));
    show();
  } else {
    ask();
  }
})();
