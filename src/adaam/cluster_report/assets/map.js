"use strict";
/* The map: colours, highlights, selection by lasso, the row under the pointer and the row that is kept. */
const Atlas = (() => {
  const { make, fact, pick } = Dom;
  const { raw } = Data;
  const plot = document.getElementById("map-plot");
  const inspector = document.getElementById("inspector");
  const chosenRows = document.getElementById("selection");
  const DIM = 0.07;
  const MOST_KINDS = 60; // of a column of words; more colours tell nothing
  const state = { space: "neighbours", coloring: "cluster", highlight: null, selected: null, row: null, drag: Plot.isTouch() ? "scroll" : "lasso" };
  const stage = new Stage({
    stage: document.getElementById("stage"), plot, ring: document.getElementById("ring"), live: document.getElementById("live"),
    points: () => raw.spaces[state.space], kept: () => state.row, keep: choose, say: Data.describe, tip: tipOf,
  });

  /* Colourings: each says how a row is coloured, and by groups or by a scale. */
  function coloring() {
    const [kind, k] = state.coloring.split(":");
    if (kind === "layer") {
      const { colors } = Data.layers[k];
      return { of: (place) => Data.layerLabel(k, place), color: (group) => (group < 0 ? Data.color(-1) : colors[Theme.current()][group]) };
    }
    if (kind === "strength") return { scale: Data.strength, range: [0, 1], title: "strength" };
    if (kind === "outlier") return { scale: Data.outlierScore, range: [0, 1], title: "outlier score" };
    if (kind === "column") {
      const column = raw.columns[k];
      if (column.number) return { scale: (place) => column.values[place], range: middle(column.values), title: column.name };
      const names = [...new Set(column.values)].sort();
      const place = new Map(names.map((name, i) => [name, i]));
      return { of: (row) => place.get(column.values[row]), color: (group) => Data.color(names[group] === null ? -1 : group), names };
    }
    return { of: Data.label, color: Data.color, words: raw.summaries };
  }

  /* Range of a column without its most extreme hundredth on either side, which would take all colours. */
  function middle(values) {
    const sorted = values.filter((value) => value !== null).sort((a, b) => a - b);
    if (!sorted.length) return [0, 1];
    const [low, high] = [sorted[Math.floor(0.01 * sorted.length)], sorted[Math.ceil(0.99 * sorted.length) - 1]];
    return low < high ? [low, high] : [low - 0.5, high + 0.5];
  }

  const isLit = (place) => state.highlight === null || state.highlight.has(place);

  function figure(width) {
    const [x, y] = raw.spaces[state.space];
    const by = coloring();
    const n = Data.every.length;
    const size = n > 3000 ? 4.5 : n > 1000 ? 5.5 : 7;
    const marker = { size, opacity: Data.every.map((place) => (isLit(place) ? (by.scale ? 0.85 : 0.75) : DIM)), line: { width: 0 } };
    if (by.scale) {
      Object.assign(marker, {
        color: Data.every.map((place) => by.scale(place)), cmin: by.range[0], cmax: by.range[1], colorscale: "Viridis", showscale: true,
        colorbar: { thickness: 10, len: 0.7, x: 1, xanchor: "left", xpad: 8, title: { text: Plot.escapeHtml(by.title.slice(0, 40)), side: "right" }, tickfont: { size: 11 }, outlinewidth: 0 },
      });
    } else marker.color = Data.every.map((place) => by.color(by.of(place)));
    // Selected rows in front of the others: SVG draws in order.
    const trace = {
      type: "scatter", mode: "markers", x, y, customdata: Data.every, hoverinfo: "none", marker,
      selectedpoints: state.selected === null ? null : [...state.selected], selected: { marker: { opacity: 0.95 } }, unselected: { marker: { opacity: DIM } },
    };
    const height = Math.max(340, Math.min(width * 0.8, 620));
    const ranges = [Stage.range(x), Stage.range(y)];
    return {
      traces: [trace],
      layout: Plot.layout({
        height, margin: { l: 4, r: by.scale ? 72 : 4, t: 4, b: 4 }, showlegend: false, annotations: names(by, [x, y], { width: width - 8, height: height - 8 }, ranges), hoverdistance: 12,
        xaxis: Plot.axis({ ...Stage.QUIET, range: ranges[0] }), yaxis: Plot.axis({ ...Stage.QUIET, range: ranges[1] }), uirevision: state.space,
        dragmode: state.drag === "scroll" ? false : state.drag,
        newselection: { line: { color: Plot.style("--ink"), width: 1.5, dash: "dot" } },
      }),
    };
  }

  /* Names of the groups that are lit; not of hundreds, which would cover the rows. */
  function names(by, points, box, ranges) {
    if (by.scale) return [];
    const groups = new Map();
    for (const place of Data.every) {
      if (!isLit(place)) continue;
      const group = by.of(place);
      if (group === undefined || group < 0) continue;
      if (!groups.has(group)) groups.set(group, []);
      groups.get(group).push(place);
    }
    if (groups.size > 150) return [];
    const shown = [...groups].map(([group, rows]) => ({ rows, tag: String(by.names ? (by.names[group] ?? "–") : group), words: by.words?.[group], color: by.color(group) }));
    return Stage.names(shown, points, box, ranges);
  }

  const draw = () => Plot.show(plot, figure, { displayModeBar: false, doubleClick: "reset", scrollZoom: false }).then(() => stage.placeRing());

  const set = (field) => (value) => { state[field] = value; draw(); };

  function controls() {
    const option = (value, words) => make("option", { value }, words);
    const group = (label, options) => (options.length ? [make("optgroup", { label }, ...options)] : []);
    const select = make("select", { id: "coloring", onchange: (event) => { color(event.target.value); } },
      option("cluster", "cluster"), option("strength", "strength"), option("outlier", "outlier score"),
      ...group("layers", Data.layers.map((layer, k) => option(`layer:${k}`, `layer ${k + 1}: ${layer.n} cluster${layer.n === 1 ? "" : "s"}`))),
      ...group("columns", raw.columns.flatMap((column, k) => (column.number || new Set(column.values).size <= MOST_KINDS ? [option(`column:${k}`, column.name)] : []))));
    document.getElementById("map-controls").append(
      make("label", {}, "Colour by ", select),
      pick("Layout", state.space, [["neighbours", "neighbours"], ["plane", "plane"]], set("space")),
      pick("Drag to", state.drag, [["lasso", "select"], ["zoom", "zoom"], ["pan", "move"], ...(Plot.isTouch() ? [["scroll", "scroll page"]] : [])], set("drag")),
      make("span", { class: "switch" },
        make("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(0.7) }, "+"),
        make("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 0.7) }, "−"),
        make("button", { type: "button", id: "reset", onclick: reset }, "reset view")));
    document.getElementById("finder").append(
      make("input", { type: "search", id: "find", placeholder: "Find on the map", "aria-label": "Find on the map", oninput: (event) => find(event.target.value) }),
      make("span", { id: "found", role: "status" }));
    legend();
  }

  function zoom(factor) {
    const change = {};
    for (const name of ["xaxis", "yaxis"]) {
      const [low, high] = plot.layout[name].range;
      const [center, half] = [(low + high) / 2, ((high - low) / 2) * factor];
      Object.assign(change, { [`${name}.range`]: [center - half, center + half] });
    }
    Plotly.relayout(plot, change);
  }

  function reset() {
    const { layout } = figure(plot.clientWidth);
    document.getElementById("find").value = "";
    document.getElementById("found").textContent = "";
    highlight(null);
    clear();
    Plotly.relayout(plot, { "xaxis.range": layout.xaxis.range, "yaxis.range": layout.yaxis.range });
  }

  function color(value) {
    state.coloring = value;
    document.getElementById("coloring").value = value;
    if (value.split(":")[0] === "layer" || value === "cluster") state.highlight = null;
    legend();
    draw();
  }

  /* What the colours stand for; a click highlights one, another click all. */
  function legend() {
    const by = coloring();
    const list = document.getElementById("legend");
    list.hidden = Boolean(by.scale);
    if (by.scale) return list.replaceChildren();
    const sizes = new Map();
    for (const place of Data.every) sizes.set(by.of(place), (sizes.get(by.of(place)) ?? 0) + 1);
    const groups = [...sizes.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
    const name = (group) => (by.names ? by.names[group] ?? "missing" : group < 0 ? "none" : String(group));
    return list.replaceChildren(...groups.slice(0, 160).map((group) => make("li", {}, make("button", {
      type: "button", class: "chip", "data-group": group, "aria-pressed": "false",
      onclick: (event) => { const isOn = event.currentTarget.getAttribute("aria-pressed") === "true"; mark(isOn ? null : group); draw(); },
    }, make("i", { class: "swatch", style: `background:${by.color(group)}` }), name(group)))));
  }

  function mark(group) {
    const by = coloring();
    state.highlight = group === null || by.scale ? null : new Set(Data.every.filter((place) => by.of(place) === group));
    for (const each of document.querySelectorAll("#legend button")) each.setAttribute("aria-pressed", String(group !== null && Number(each.dataset.group) === group));
  }

  /* Highlight a cluster, or none; from cards and layers too. */
  function highlight(group, by = null) {
    if (by !== null && state.coloring !== by) { state.coloring = by; document.getElementById("coloring").value = by; legend(); }
    mark(group);
    return draw();
  }

  /* Selection */

  function select(places) {
    state.selected = new Set(places);
    const counts = new Map();
    for (const place of places) counts.set(Data.label(place), (counts.get(Data.label(place)) ?? 0) + 1);
    const lines = [...counts].sort((a, b) => b[1] - a[1]);
    chosenRows.replaceChildren(
      make("h3", {}, `${places.length.toLocaleString("en")} row${places.length === 1 ? "" : "s"} selected`),
      make("ul", { class: "shares" }, ...lines.slice(0, 8).map(([label, count]) => make("li", {}, make("i", { class: "swatch", style: `background:${Data.color(label)}` }), Data.labelName(label), make("b", {}, count.toLocaleString("en"))))),
      ...(lines.length > 8 ? [make("p", {}, `and ${lines.length - 8} more clusters`)] : []),
      ...apart(),
      make("p", { class: "actions" },
        make("button", { type: "button", class: "plain", id: "list-selected", onclick: () => Table.list({ places: state.selected }) }, "List them"),
        make("button", { type: "button", class: "plain", id: "download-selected", onclick: () => Data.download(Data.csvOf([...state.selected]), Data.fileName("selected")) }, "Download"),
        make("button", { type: "button", class: "plain", id: "clear-selected", onclick: () => { clear(); draw(); } }, "Clear")));
  }

  /* What the selected rows have in common, and others have not. */
  function apart() {
    const found = Apart.of(state.selected);
    if (!found.length) return [];
    return [make("h4", {}, "What sets them apart"), make("ul", { class: "apart" }, ...found.map(({ words, told }) => make("li", {}, words, make("small", {}, told))))];
  }

  /* Rows that hold these words are lit, all others dimmed. */
  let waiting = 0;
  function find(query) {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      mark(null);
      clear();
      const places = Table.matching(query);
      state.highlight = places === null ? null : new Set(places);
      document.getElementById("found").textContent = places === null ? "" : `${places.length.toLocaleString("en")} found`;
      draw();
    }, 150);
  }

  function clear() {
    state.selected = null;
    chosenRows.replaceChildren();
    if (plot.layout?.selections?.length) Plotly.relayout(plot, { selections: [] });
  }

  /* The row that is kept */

  function content(place, isTip) {
    const parts = [];
    if (Pictures.has) parts.push(Pictures.canvas(place, isTip ? null : Data.rowName(place)));
    if (raw.texts) parts.push(make("p", { class: "quote" }, isTip && raw.texts[place].length > 240 ? `${raw.texts[place].slice(0, 240)} …` : raw.texts[place]));
    return parts;
  }

  function choose(place) {
    state.row = place;
    const label = Data.label(place);
    inspector.replaceChildren(make("h3", {}, Data.rowName(place)), ...content(place, false), make("dl", {},
      fact("cluster", make("i", { class: "swatch", style: `background:${Data.color(label)}` }), " ", label < 0 ? "none" : make("a", { href: `#cluster-${label}` }, String(label))),
      fact("strength", Data.strength(place).toFixed(2)), fact("outlier score", Data.outlierScore(place).toFixed(2)),
      ...(Data.layers.length ? [fact("in layers", Data.layers.map((_, k) => Data.layerLabel(k, place)).join(" › "))] : []),
      ...raw.columns.slice(0, 12).map((column) => fact(column.name, Data.number(column.values[place])))));
    inspector.dataset.place = place;
    stage.placeRing();
  }

  function tipOf(place) {
    const label = Data.label(place);
    const values = Pictures.has || raw.texts ? [] : raw.columns.slice(0, 4).map((column) => make("div", {}, `${column.name} ${Data.number(column.values[place])}`));
    return [...content(place, true), make("div", { class: "who" }, make("i", { class: "swatch", style: `background:${Data.color(label)}` }), ` ${Data.rowName(place)} · ${Data.labelName(label)}`), ...values];
  }

  async function start() {
    controls();
    await draw();
    stage.bind();
    plot.on("plotly_selected", (event) => { if (event?.points?.length) { select(event.points.map((point) => point.customdata)); draw(); } });
    plot.on("plotly_deselect", () => { clear(); draw(); });
    choose(Data.placeOf.get(Number(document.querySelector("[data-row]")?.dataset.row)) ?? 0);
  }

  /* After the theme changed: what carries colours outside the plot. */
  function recolor() {
    legend();
    if (state.highlight !== null) highlight(null);
    if (state.selected !== null) select([...state.selected]);
    if (state.row !== null) choose(state.row);
  }
  return { start, choose, highlight, recolor };
})();
