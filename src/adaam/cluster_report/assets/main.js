"use strict";
/* Start everything, and join cards, layers and examples to map and table. */
(async () => {
  const { raw } = Data;

  /* What is told of each number of clusters. */
  function counts() {
    const { count } = raw;
    const x = count.modularity.map((_, place) => place + 1);
    const line = (name, values, color, more = {}) => ({ type: "scatter", mode: "lines+markers", name, x, y: values, line: { color, width: 2, ...more }, marker: { color, size: 5 }, hovertemplate: `%{x} clusters: ${name} %{y:.2f}<extra></extra>` });
    return {
      traces: [
        line("modularity", count.modularity, Plot.style("--ours")),
        line("separateness of the last split", count.separateness, Plot.style("--paper"), { dash: "dot" }),
      ],
      layout: Plot.layout({
        height: 320, margin: { l: 8, r: 16, t: 12, b: 8 },
        xaxis: Plot.axis({ title: { text: "number of clusters", standoff: 6 }, tickformat: "d" }), yaxis: Plot.axis({ range: [-0.02, 1.05] }),
        legend: { orientation: "h", y: -0.25, yanchor: "top", x: 0, font: { size: 12 } },
        shapes: [
          { type: "rect", xref: "x", yref: "paper", x0: count.low - 0.5, x1: count.high + 0.5, y0: 0, y1: 1, fillcolor: Plot.style("--accent-soft"), line: { width: 0 }, layer: "below" },
          { type: "line", xref: "x", yref: "paper", x0: count.n, x1: count.n, y0: 0, y1: 1, line: { color: Plot.style("--ours"), width: 1.5, dash: "dot" } },
        ],
      }),
    };
  }

  const toMap = () => document.getElementById("map").scrollIntoView();
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-highlight], [data-list], [data-row], [data-layer]");
    if (!button) return;
    const { highlight, list, row, layer, cluster } = button.dataset;
    if (highlight !== undefined) { Atlas.highlight(Number(highlight), "cluster"); toMap(); }
    if (list !== undefined) Table.list({ cluster: list });
    if (row !== undefined) { Atlas.choose(Data.placeOf.get(Number(row))); toMap(); }
    if (layer !== undefined) {
      const isOn = button.getAttribute("aria-pressed") === "true";
      for (const each of document.querySelectorAll("[data-layer]")) each.setAttribute("aria-pressed", String(each === button && !isOn));
      Atlas.highlight(isOn ? null : Number(cluster), `layer:${layer}`);
      if (!isOn) toMap();
    }
  });

  Plot.themeButton(document.getElementById("theme"));
  Plot.follow(() => { Atlas.recolor(); Table.paint(); });
  await Pictures.start();
  Table.start();
  await Atlas.start();
  if (raw.count?.modularity.length > 1) await Plot.show(document.getElementById("count-plot"), counts, { displayModeBar: false });
  document.documentElement.dataset.ready = "true";
})();
