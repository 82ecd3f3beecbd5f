"use strict";
/* The table of rows: search, filter, sort, pages, downloads. */
const Table = (() => {
  const { make } = Dom;
  const { raw } = Data;
  const PAGE = 25;
  const state = { query: "", cluster: "", places: null, sort: null, order: 1, page: 0 };
  const table = document.getElementById("rows-table");
  const pager = document.getElementById("pager");

  const columns = [
    { name: raw.ids ? "id" : "row", value: (place) => (raw.ids ? Data.rowName(place) : Data.rows[place]), shown: (place) => Data.rowName(place), words: Boolean(raw.ids) },
    { name: "cluster", value: Data.label, shown: (place) => make("span", { class: "tag" }, make("i", { class: "swatch", style: `background:${Data.color(Data.label(place))}` }), Data.label(place) < 0 ? "none" : String(Data.label(place))) },
    ...(raw.images ? [{ name: "image", shown: (place) => Pictures.canvas(place, Data.rowName(place)) }] : []),
    ...(raw.texts ? [{ name: "text", value: (place) => raw.texts[place], shown: (place) => raw.texts[place], words: true, wide: true }] : []),
    { name: "strength", value: Data.strength, shown: (place) => Data.strength(place).toFixed(2), number: true },
    { name: "outlier score", value: Data.outlierScore, shown: (place) => Data.outlierScore(place).toFixed(2), number: true },
    ...raw.columns.map((column) => ({
      name: column.name, value: (place) => column.values[place], shown: (place) => Data.number(column.values[place]), number: column.number, words: !column.number,
    })),
  ];

  // All that is searched of a row, in small letters, made when the first search needs it.
  let searched = null;
  const searchable = () => {
    searched ??= Data.every.map((place) => [Data.rowName(place), ...(raw.texts ? [raw.texts[place]] : []), ...raw.columns.map((column) => column.values[place] ?? "")].join("\u0001").toLowerCase());
    return searched;
  };

  /* Places of the rows that hold all words, in any order; null where there is no word. */
  function matching(query) {
    const words = query.trim().toLowerCase().split(/\s+/).filter(Boolean);
    return words.length === 0 ? null : Data.every.filter((place) => words.every((word) => searchable()[place].includes(word)));
  }

  function found() {
    const chosen = state.places;
    const result = (matching(state.query) ?? Data.every).filter((place) => (chosen === null || chosen.has(place)) && (state.cluster === "" || String(Data.label(place)) === state.cluster));
    if (state.sort === null) return result;
    const { value, words: isWords } = columns[state.sort];
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null);
      return state.order * (isWords ? String(x).localeCompare(String(y), "en", { numeric: true }) : x - y);
    };
    return result.sort(compare);
  }

  function heading(column, k) {
    const sort = state.sort === k ? (state.order > 0 ? "ascending" : "descending") : "none";
    if (!column.value) return make("th", { scope: "col", class: "still" }, column.name);
    return make("th", { scope: "col", "aria-sort": sort, class: column.number ? "number" : null },
      make("button", {
        type: "button", onclick: () => {
          state.order = state.sort === k ? -state.order : column.number ? -1 : 1;
          state.sort = k;
          state.page = 0;
          paint();
          table.tHead.rows[0].cells[k].querySelector("button").focus();
        },
      }, column.name, make("span", { class: "arrow", "aria-hidden": "true" })));
  }

  function paint() {
    const places = found();
    const nPages = Math.max(1, Math.ceil(places.length / PAGE));
    state.page = Math.min(state.page, nPages - 1);
    table.tHead.replaceChildren(make("tr", {}, ...columns.map(heading)));
    table.tBodies[0].replaceChildren(...places.slice(state.page * PAGE, (state.page + 1) * PAGE).map((place) => make("tr", { "data-place": place },
      ...columns.map((column, k) => {
        const content = column.shown(place);
        if (k > 0) return make("td", { class: column.number ? "number" : column.wide ? "wide" : null }, content);
        return make("th", { scope: "row" }, make("button", { type: "button", class: "link", title: "Show on the map", onclick: () => { Atlas.choose(place); document.getElementById("map").scrollIntoView(); } }, content));
      }))));
    const go = (step, words) => make("button", { type: "button", class: "plain", onclick: () => { state.page += step; paint(); }, ...(state.page + step < 0 || state.page + step >= nPages ? { disabled: "" } : {}) }, words);
    const first = state.page * PAGE + 1;
    const some = places.length ? `${first.toLocaleString("en")}–${Math.min(first + PAGE - 1, places.length).toLocaleString("en")} of ${places.length.toLocaleString("en")} rows` : "No row matches.";
    pager.replaceChildren(go(-1, "Previous"), make("span", { id: "rows-count", role: "status" }, some), go(1, "Next"));
    only.hidden = state.places === null;
  }

  const search = make("input", { type: "search", id: "search", placeholder: "Search", "aria-label": "Search rows", oninput: (event) => { state.query = event.target.value; state.page = 0; paint(); } });
  const filter = make("select", { id: "filter", onchange: (event) => { state.cluster = event.target.value; state.page = 0; paint(); } });
  const only = make("button", { type: "button", class: "plain", id: "only", hidden: "", onclick: () => { state.places = null; paint(); } }, "Selected rows only ✕");

  function start() {
    const options = [...Array(raw.clusters).keys()].map((cluster) => make("option", { value: cluster }, `cluster ${cluster}`));
    if (Data.every.some((place) => Data.label(place) < 0)) options.push(make("option", { value: -1 }, "no cluster"));
    filter.append(make("option", { value: "" }, "all clusters"), ...options);
    document.getElementById("rows-controls").append(search, make("label", {}, "Show ", filter), only,
      make("span", { class: "push" },
        make("button", { type: "button", class: "plain", id: "download-found", onclick: () => Data.download(Data.csvOf(found()), Data.fileName("rows")) }, "Download these rows"),
        make("button", { type: "button", class: "plain strong", id: "download-all", onclick: () => Data.download(Data.csvOfAll(), Data.fileName("labels")) }, raw.holds_all ? "Download all labels (CSV)" : "Download labels (CSV)")));
    paint();
  }

  /* Show certain rows alone: those of a cluster, or those selected on the map. */
  function list({ cluster = "", places = null }) {
    Object.assign(state, { cluster: String(cluster), places, query: "", page: 0 });
    search.value = "";
    filter.value = state.cluster;
    paint();
    document.getElementById("rows").scrollIntoView();
  }
  return { start, paint, list, matching };
})();
