"use strict";
/* One data set: its scatter with the row under the pointer, components, confusion and neighbours. */
const Exhibits = (() => {
  const { make, loaded, fact } = Dom;

  class DataSet {
    constructor(panel) {
      this.panel = panel;
      this.data = JSON.parse(panel.querySelector("script.exhibit").textContent);
      this.view = "chosen";
      this.colouring = "classes";
      this.highlight = "";
      this.drawing = "patterns";
      this.selected = this.data.queries[0];
    }

    async open() {
      const { data } = this;
      [this.tiles, this.components, this.patterns] = await Promise.all([data.tiles, data.components, data.patterns].map((each) => loaded(each.url)));
      if (!data.about.is_image) this.values = this.bytes(this.tiles);
      this.panel.append(this.scatterPart(), this.neighborsPart(), this.componentsPart(), this.confusionPart());
      await this.paint();
      this.neighbors();
    }

    async paint() {
      const { data } = this;
      await Charts.show(this.plot, (width) => this.scatter(width));
      if (!this.isBound) { this.isBound = true; this.stage.bind(); }
      await Charts.show(this.confusionPlot, (width) => Charts.confusion(this.result().confusion)(width));
      if (this.weightsPlot) await Charts.show(this.weightsPlot, Charts.weights(data));
      this.select(this.selected);
    }

    /* Pictures of rows */

    bytes(image) {
      const canvas = make("canvas", { width: image.width, height: image.height });
      const context = canvas.getContext("2d");
      context.drawImage(image, 0, 0);
      return context.getImageData(0, 0, image.width, image.height).data;
    }

    picture(place, label) {
      const { data } = this;
      const canvas = make("canvas", label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" });
      canvas.dataset.place = place;
      if (data.about.is_image) this.cut(canvas, this.tiles, data.tiles.columns, place);
      else this.profile(canvas, place);
      return canvas;
    }

    cut(canvas, image, nColumns, place) {
      Dom.cut(canvas, image, nColumns, place, this.data.tile);
    }

    profile(canvas, place) {
      const { width } = this.data.tile;
      const nColumns = this.data.tiles.columns;
      const start = Math.floor(place / nColumns) * this.tiles.width + (place % nColumns) * width;
      Object.assign(canvas, { width: 256, height: 128, className: "profile" });
      const context = canvas.getContext("2d");
      const step = 256 / width;
      context.fillStyle = Charts.style("--ours");
      for (let j = 0; j < width; j += 1) {
        const high = 2 + (124 * this.values[4 * (start + j)]) / 255;
        context.fillRect(j * step, 128 - high, Math.max(1, step - (step > 4 ? 1 : 0)), high);
      }
    }

    /* Clusters go with the space: AdaAM's own in its metric, the chosen ones elsewhere. */
    result() {
      const { data } = this;
      return this.view === "after"
        ? { name: "AdaAM", clusters: data.clusters, confusion: data.confusion, confusions: data.confusions, nearest: data.nearest_after }
        : { name: "chosen", clusters: data.chosen_clusters, confusion: data.chosen_confusion, confusions: data.chosen_confusions, nearest: data.nearest_chosen };
    }

    describe(place) {
      const { data } = this;
      return `row ${data.rows[place]}, class ${data.classes[place]}, cluster ${this.result().clusters[place]}`;
    }

    /* A row of buttons that sets a field. */
    pick(legend, field, choices, changed) {
      return Dom.pick(legend, this[field], choices, (value) => { this[field] = value; changed(); });
    }

    /* The scatter */

    scatterPart() {
      const { data } = this;
      const { about } = data;
      const highlight = make("select", { onchange: (event) => { this.highlight = event.target.value; this.redraw(); } },
        make("option", { value: "" }, "all"), ...data.confusion.map((_, place) => make("option", { value: place }, String(place))));
      const before = about.is_image ? "raw pixels" : "raw rows";
      this.plot = make("div", { class: "plot" });
      const ring = make("div", { class: "ring", "aria-hidden": "true" });
      const stage = make("div", {
        class: "stage panel", tabindex: "0", role: "application", "aria-label": `Scatter of ${data.title}. Arrow keys move from row to row, Enter shows its neighbours.`,
        onkeydown: (event) => { if (event.key === "Enter" && event.target === stage) { this.neighbors(); event.preventDefault(); } },
      }, this.plot, ring);
      this.inspector = make("div", { class: "inspector" });
      const live = make("p", { class: "sr", "aria-live": "polite" });
      this.stage = new Stage({
        stage, plot: this.plot, ring, live, points: () => data[this.view], kept: () => this.selected, say: (place) => this.describe(place),
        keep: (place, byKey) => { this.select(place); if (!byKey) this.neighbors(); }, 
        tip: (place) => { this.select(place); return [this.picture(place), `class ${data.classes[place]}, cluster ${this.result().clusters[place]}`]; },
      });
      const all = data.rows.length === about.n ? `All ${about.n.toLocaleString("en")} rows` : `${data.rows.length.toLocaleString("en")} of ${about.n.toLocaleString("en")} rows, drawn by chance`;
      return make("div", { class: "wide" },
        make("h3", {}, `${data.title}: clusters and metric`),
        make("p", { class: "hint" }, `${all}; ${about.d} features, ${about.c} classes.`),
        make("p", {}, make("strong", {}, `AdaAMClustering ${data.chosen_scores.acc.toFixed(1)} %`), ` (${this.choice()}), `, make("strong", {}, `AdaAM with k-means ${data.scores.acc.toFixed(1)} %`),
          ` of the rows in the cluster of their class (seed ${about.seed}). Point at a row, touch it, or use the arrow keys.`),
        make("div", { class: "controls" },
          this.pick("Space", "view", [["chosen", "chosen metric"], ["after", "AdaAM"], ["before", before]], () => { this.redraw(); this.neighbors(); this.confused(); }),
          this.pick("Colour by", "colouring", [["classes", "class"], ["clusters", "cluster"], ["errors", "right or wrong"]], () => this.redraw()),
          make("label", {}, "Highlight ", highlight)),
        make("div", { class: "split" }, stage, this.inspector), live,
        make("p", { class: "notes" }, "Chosen metric and AdaAM: the plane in which the means of their own clusters spread most. Raw: the two leading principal components of the rows as they are, with the chosen clusters. Clusters carry the number and colour of the class they are matched to."),
        make("p", { class: "notes" }, `How it was made: ${data.facts.map(([name, value]) => `${name} ${value}`).join("; ")}.`));
    }

    choice() {
      const { metric, preparation, head, learned } = this.data.choice;
      return `${learned ? `a learned metric: ${metric}` : `no learned metric: ${metric}`}, preparation “${preparation}”, ${head}`;
    }

    groups() {
      const { data } = this;
      const { clusters } = this.result();
      if (this.colouring === "errors") {
        const right = data.classes.map((each, i) => Number(each !== clusters[i]));
        return { of: right, names: ["right", "wrong"], hues: [Charts.style("--right"), Charts.style("--wrong")], symbols: ["circle", "x"] };
      }
      const names = data.confusion.map((_, place) => String(place));
      return { of: this.colouring === "clusters" ? clusters : data.classes, names, hues: names.map((_, i) => Charts.color(i)), symbols: names.map((_, i) => Charts.symbol(i)) };
    }

    scatter(width) {
      const { data } = this;
      const [x, y] = data[this.view];
      const { of, names, hues, symbols } = this.groups();
      const members = names.map(() => []);
      of.forEach((group, i) => members[group].push(i));
      const chosen = this.colouring === "clusters" ? this.result().clusters : data.classes;
      const isBright = (i) => this.highlight === "" || String(chosen[i]) === this.highlight;
      const size = data.rows.length > 1500 ? 5 : 7;
      const traces = members.map((rows, group) => ({
        type: "scatter", mode: "markers", name: names[group], x: rows.map((i) => x[i]), y: rows.map((i) => y[i]), customdata: rows, hoverinfo: "none",
        marker: { color: hues[group], symbol: symbols[group], size, opacity: rows.map((i) => (isBright(i) ? 0.8 : 0.06)), line: { width: 0 } },
      }));
      const height = Math.max(320, Math.min(width * 0.8, 580));
      const margin = { l: 4, r: 4, t: Charts.isTouch() ? 4 : 30, b: 4 };
      const ranges = [Stage.range(x), Stage.range(y)];
      const named = members.flatMap((rows, group) => (!rows.length || this.colouring === "errors" || (this.highlight !== "" && names[group] !== this.highlight) ? [] : [{ rows, tag: names[group], color: hues[group] }]));
      const annotations = Stage.names(named, [x, y], { width: width - 8, height: height - margin.t - margin.b }, ranges);
      return {
        traces,
        layout: Charts.layout({
          height, margin, showlegend: this.colouring === "errors",
          legend: { x: 0.01, y: 0.99, bgcolor: "rgba(0,0,0,0)" }, annotations, hoverdistance: 12,
          xaxis: Charts.axis({ ...Stage.QUIET, range: ranges[0] }), yaxis: Charts.axis({ ...Stage.QUIET, range: ranges[1] }),
          uirevision: this.view,
        }),
      };
    }

    redraw() {
      Charts.show(this.plot, (width) => this.scatter(width)).then(() => this.select(this.selected));
    }

    select(place) {
      const { data } = this;
      this.selected = place;
      const { clusters } = this.result();
      const isRight = data.classes[place] === clusters[place];
      this.inspector.replaceChildren(this.picture(place, this.describe(place)), make("dl", {},
        fact("row", String(data.rows[place])), fact("class", String(data.classes[place])),
        fact("cluster", `${clusters[place]} `, make("span", { class: isRight ? "right" : "wrong" }, isRight ? "✓ right" : "✕ wrong"))),
        make("button", { type: "button", class: "plain", onclick: () => { this.neighbors(); this.strips.scrollIntoView({ block: "nearest" }); } }, "Show its neighbours"));
      this.stage.placeRing();
    }

    /* Neighbours before and after */

    neighborsPart() {
      const { data } = this;
      this.strips = make("div", { class: "strips" });
      const among = data.rows.length === data.about.n ? "" : ` among the ${data.rows.length.toLocaleString("en")} rows shown`;
      const share = (value) => make("strong", {}, `${value.toFixed(1)} %`);
      const verdict = data.same_after < data.same_before ? " On this set AdaAM's metric brings rows of a class no closer together: learning it did not help here." : "";
      return make("div", { class: "wide" }, make("h3", {}, "Nearest neighbours before and after"),
        make("p", {}, `Of the ${data.nearest_after[0].length} nearest neighbours of a row${among}, `, share(data.same_before), " are of its class by Euclidean distance of the raw rows, ", share(data.same_after), " by AdaAM's metric, and ", share(data.same_chosen), ` by the chosen one.${verdict}`),
        make("p", { class: "hint" }, "First line: the row chosen above. Others: rows drawn by chance. Solid underline: same class; dashed with ✕: another class."),
        this.strips);
    }

    neighbors() {
      const { data } = this;
      const tile = (place, kind, note) => make("figure", { class: `tile ${kind}` }, this.picture(place, `${this.describe(place)}${note}`));
      const line = (query, nearest, kind, words) => make("div", { class: `line ${kind}` }, make("span", { class: "label" }, words),
        ...nearest[query].map((place) => {
          const isSame = data.classes[place] === data.classes[query];
          return tile(place, isSame ? "same" : "other", isSame ? ", same class" : ", another class");
        }));
      const head = make("div", { class: "strip head" }, make("span", {}, "row"), make("span", {}, "before: raw, nearest first"), make("span", {}, `after: ${this.result().name === "AdaAM" ? "AdaAM" : "chosen metric"}, nearest first`));
      const places = [...new Set([this.selected, ...data.queries])];
      this.strips.replaceChildren(head, ...places.map((query) => make("div", { class: "strip" }, tile(query, "query", ""),
        line(query, data.nearest_before, "before", "before"), line(query, this.result().nearest, "after", "after"))));
    }

    /* Components and confusion */

    componentsPart() {
      const { data } = this;
      const part = make("div", {}, make("h3", {}, "Components of AdaAM's metric"));
      if (!data.about.is_image) {
        this.weightsPlot = make("div", { class: "plot", role: "img", "aria-label": "Weights of each component" });
        part.append(make("p", { class: "hint" }, "Each component is a weighted sum of features; blue counts against, brown for."), this.weightsPlot);
        return part;
      }
      const { count } = data.components;
      const grid = make("div", { class: `grid ${count > 24 ? "many" : count > 12 ? "" : "few"}` });
      const words = {
        patterns: "What changes along each component: its covariance with every pixel. Every image has its own symmetric scale.",
        components: "The weights themselves: a row is mapped to its products with them, and they also cancel what neighbouring pixels share. Every image has its own symmetric scale.",
      };
      const told = make("p", { class: "hint" });
      const draw = () => {
        const kind = this.drawing;
        told.textContent = words[kind];
        grid.replaceChildren(...Array.from({ length: count }, (_, place) => {
          const canvas = make("canvas", { role: "img", "aria-label": `${kind === "patterns" ? "pattern" : "weights"} of component ${place + 1} of ${data.title}` });
          this.cut(canvas, this[kind], data[kind].columns, place);
          return make("figure", {}, canvas, make("figcaption", {}, String(place + 1)));
        }));
      };
      draw();
      part.append(make("div", { class: "controls" }, this.pick("Show", "drawing", [["patterns", "patterns"], ["components", "weights"]], draw)), told, grid,
        make("div", { class: "scale" }, make("span", {}, "falls"), make("i", {}), make("span", {}, "rises along the component")));
      return part;
    }

    confusionPart() {
      this.confusionTold = make("p", { class: "hint" });
      this.confusionPlot = make("div", { class: "plot", role: "img" });
      const part = make("div", {}, make("h3", {}, "Classes and clusters"), this.confusionTold, this.confusionPlot);
      this.tellConfusion();
      return part;
    }

    tellConfusion() {
      const { data } = this;
      const { name, confusion, confusions } = this.result();
      const right = confusion.reduce((sum, row, place) => sum + row[place], 0);
      const words = confusions.map(([row, column, count]) => `${count.toLocaleString("en")} of class ${row} in the cluster of ${column}`).join("; ");
      const told = `${name === "AdaAM" ? "AdaAM with k-means" : "AdaAMClustering"}: ${right.toLocaleString("en")} of ${data.about.n.toLocaleString("en")} rows are in the cluster of their class.${words ? ` Largest errors: ${words}.` : ""}`;
      this.confusionTold.textContent = `${told} Colour: share of the class.`;
      this.confusionPlot.setAttribute("aria-label", `Confusion matrix of ${data.title}. ${told}`);
    }

    confused() {
      this.tellConfusion();
      Charts.show(this.confusionPlot, (width) => Charts.confusion(this.result().confusion)(width));
    }
  }

  const sets = new Map();

  async function open(panel) {
    const known = sets.get(panel);
    if (known) {
      await known.opened; // its images may still be loading
      return known.set.paint();
    }
    const set = new DataSet(panel);
    const opened = set.open();
    sets.set(panel, { set, opened });
    await opened;
    panel.dataset.ready = "true";
    return undefined;
  }

  function start() {
    const tabs = [...document.querySelectorAll('[role="tab"]')];
    const choose = (tab) => {
      for (const each of tabs) {
        const isChosen = each === tab;
        each.setAttribute("aria-selected", String(isChosen));
        each.tabIndex = isChosen ? 0 : -1;
        document.getElementById(each.getAttribute("aria-controls")).hidden = !isChosen;
      }
      open(document.getElementById(tab.getAttribute("aria-controls")));
    };
    tabs.forEach((tab, place) => {
      tab.addEventListener("click", () => choose(tab));
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: tabs.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = tabs[(to + tabs.length) % tabs.length];
        next.focus();
        choose(next);
      });
    });
    if (!tabs.length) return;
    // The first data set is drawn when it comes near, so that the summary is there at once.
    const watch = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watch.disconnect();
      choose(tabs.find((tab) => tab.getAttribute("aria-selected") === "true") || tabs[0]);
    }, { rootMargin: "800px" });
    watch.observe(document.getElementById("sets"));
  }

  const repaint = () => sets.forEach(({ set }) => { if (!set.panel.hidden && set.isBound) { set.select(set.selected); set.neighbors(); } });
  return { start, repaint };
})();
