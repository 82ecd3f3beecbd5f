"use strict";
/* Charts of the records: plot data in, plotly's traces out, in the colours of the theme. */
const Charts = (() => {
  const { show, repaint, layout, axis, style, isTouch, escapeHtml } = Plot;
  const { palette: COLORS, methods: METHODS } = JSON.parse(document.getElementById("data").textContent);
  const SYMBOLS = ["circle", "diamond", "square", "triangle-up", "cross"];

  const color = (place) => COLORS[Theme.current()][place % COLORS.light.length];
  const symbol = (place) => SYMBOLS[Math.floor(place / COLORS.light.length) % SYMBOLS.length];
  // A method has the same colour in every chart; what the library does not list comes after all others.
  const places = new Map(Object.entries(METHODS));
  const placeOf = (name) => { if (!places.has(name)) places.set(name, places.size); return places.get(name); };

  function panels(chart) {
    return (width) => {
      const nColumns = width < 640 ? 1 : Math.min(2, chart.panels.length);
      const nRows = Math.ceil(chart.panels.length / nColumns);
      const groups = [...new Set(chart.panels.flatMap((panel) => panel.series.map((each) => each.group)))];
      const names = [...new Set(chart.panels.flatMap((panel) => panel.series.map((each) => each.name)))];
      const legendRows = names.length > 1 ? Math.ceil((names.length * 175) / Math.max(width, 1)) : 0;
      const height = nRows * (width < 640 ? 300 : 340) + legendRows * 22 + 40;
      const gap = nColumns > 1 ? 0.1 : 0;
      const wide = (1 - gap * (nColumns - 1)) / nColumns;
      const between = nRows > 1 ? Math.min(0.5 / nRows, 95 / height) : 0;
      const high = (1 - between * (nRows - 1)) / nRows;
      const result = layout({ height, annotations: [], shapes: [], showlegend: names.length > 1, legend: {
        orientation: "h", y: -62 / (height - legendRows * 22 - 80), yanchor: "top", x: 0, font: { size: 12 }, traceorder: "normal",
      } });
      const traces = [];
      const seen = new Set();
      chart.panels.forEach((panel, place) => {
        const id = place === 0 ? "" : String(place + 1);
        const [column, row] = [place % nColumns, Math.floor(place / nColumns)];
        const [left, top] = [column * (wide + gap), 1 - row * (high + between)];
        result[`xaxis${id}`] = axis({
          domain: [left, left + wide], anchor: `y${id}`, title: { text: panel.x_label, standoff: 6 },
          ...(panel.whole_x ? { tickvals: [...new Set(panel.series.flatMap((each) => each.x))] } : {}),
        });
        result[`yaxis${id}`] = axis({
          domain: [top - high, top], anchor: `x${id}`, title: { text: panel.y_label, standoff: 6 },
          ...(panel.log_y ? { type: "log", dtick: 1, exponentformat: "power" } : {}),
          ...(panel.y_range ? { range: panel.y_range } : {}),
        });
        result.annotations.push({
          text: `<b>${escapeHtml(panel.title)}</b>`, xref: "paper", yref: "paper", x: left, y: top, xanchor: "left",
          yanchor: "bottom", showarrow: false, font: { size: 14 },
        });
        if (panel.mark) {
          const [at, words] = panel.mark;
          const side = at > Math.max(...panel.series[0].x) / 2 ? "right" : "left";
          result.shapes.push({
            type: "line", xref: `x${id}`, yref: `y${id} domain`, x0: at, x1: at, y0: 0, y1: 1,
            line: { color: style("--wrong"), width: 2, dash: "dot" },
          });
          result.annotations.push({
            text: escapeHtml(words), xref: `x${id}`, yref: `y${id} domain`, x: at, y: 0.96, xanchor: side, xshift: side === "left" ? 6 : -6,
            showarrow: false, font: { color: style("--wrong") },
          });
        }
        for (const series of panel.series) {
          const hue = color(placeOf(series.group));
          const shared = {
            x: series.x, y: series.y, xaxis: `x${id}`, yaxis: `y${id}`, name: escapeHtml(series.name),
            legendgroup: series.name, showlegend: !seen.has(series.name),
          };
          seen.add(series.name);
          if (panel.style === "bars") {
            traces.push({ ...shared, type: "bar", marker: { color: hue }, hovertemplate: "|Δ| ≈ %{x:.3g}: %{y:,} entries<extra></extra>" });
            result.bargap = 0;
            continue;
          }
          const hasSpread = series.spread.some((each) => each > 0);
          traces.push({
            ...shared, type: "scatter", mode: "lines+markers",
            line: { color: hue, width: series.group === "AdaAM" ? 3 : 1.6, dash: series.dashed ? "dash" : "solid" },
            marker: { color: hue, size: 6, symbol: SYMBOLS[groups.indexOf(series.group) % SYMBOLS.length] },
            ...(hasSpread ? { error_y: { array: series.spread, thickness: 1, width: 0, color: hue } } : {}),
            hovertemplate: `${escapeHtml(series.name)}<br>${panel.x_label} %{x:,}: %{y:.4~g}${hasSpread ? " ± %{error_y.array:.2f}" : ""}<extra></extra>`,
          });
        }
      });
      return { traces, layout: result };
    };
  }

  /* One line a data set, one mark a method: AdaAM, the paper, and what people run. */
  function standings(found) {
    return (width) => {
      const sets = [...found].reverse();
      const titles = sets.map((each) => escapeHtml(each.title));
      const today = [...new Set(sets.flatMap((each) => each.today.map((score) => score.name)))];
      const marks = [
        { name: "best other method run here", at: (each) => each.published, color: style("--muted"), symbol: "line-ns-open", size: 22, says: (each) => ` (${each.published.name})` },
        ...today.map((name, place) => ({
          name, at: (each) => each.today.find((score) => score.name === name), color: color(placeOf(name)), symbol: SYMBOLS[(place + 1) % SYMBOLS.length], size: name === "AdaAMClustering" ? 15 : 10,
        })),
        { name: "AdaAM, the paper", at: (each) => each.paper === null ? null : { average: each.paper }, color: color(placeOf("AdaAM")), symbol: "diamond-open", size: 13 },
        { name: "AdaAM, here", at: (each) => each.ours, color: color(placeOf("AdaAM")), symbol: "circle", size: 13 },
      ];
      const traces = marks.map((mark) => {
        const shown = sets.map((each) => mark.at(each) || null);
        return {
          type: "scatter", mode: "markers", name: mark.name, y: titles, x: shown.map((score) => score && score.average),
          marker: { color: mark.color, symbol: mark.symbol, size: mark.size, line: { width: mark.symbol.endsWith("open") ? 2.5 : 0, color: mark.color } },
          text: sets.map((each) => escapeHtml(mark.says && mark.at(each) ? mark.says(each) : "")),
          hovertemplate: `%{y}: ${escapeHtml(mark.name)}%{text} %{x:.1f} %<extra></extra>`,
        };
      });
      const legendRows = Math.ceil((marks.length * 175) / width);
      const height = 60 + sets.length * 54 + legendRows * 22 + 40;
      return {
        traces: traces.filter((trace) => trace.x.some((each) => each !== null)),
        layout: layout({
          height, margin: { l: 8, r: 16, t: 8, b: 8 },
          xaxis: axis({ title: { text: "average accuracy (%)", standoff: 6 }, ticksuffix: "" }),
          yaxis: axis({ type: "category", range: [-0.5, sets.length - 0.5] }),
          legend: { orientation: "h", y: -62 / (height - legendRows * 22 - 70), yanchor: "top", x: 0, traceorder: "reversed", font: { size: 12 } },
        }),
      };
    };
  }

  function confusion(counts) {
    return (width) => {
      const c = counts.length;
      const names = counts.map((_, place) => String(place));
      const shares = counts.map((row) => { const sum = row.reduce((a, b) => a + b, 0) || 1; return row.map((count) => (100 * count) / sum); });
      const side = Math.min(width, 620);
      const hasRoom = (side - 70) / c >= 24;
      const ends = Theme.current() === "dark" ? ["#1a1d24", "#1c4a72", "#2f7fc4"] : ["#ffffff", "#8ebfe6", "#00467a"];
      return {
        traces: [{
          type: "heatmap", z: shares, x: names, y: names, customdata: counts, text: counts.map((row) => row.map((count) => count || "")), texttemplate: hasRoom ? "%{text}" : "",
          textfont: { size: c > 14 ? 9 : 11 }, colorscale: [[0, ends[0]], [0.4, ends[1]], [1, ends[2]]], zmin: 0, zmax: 100, xgap: 1, ygap: 1, showscale: false,
          hovertemplate: "class %{y} in cluster %{x}: %{customdata} rows (%{z:.1f} % of the class)<extra></extra>",
        }],
        layout: layout({
          height: side, margin: { l: 8, r: 8, t: 8, b: 8 },
          xaxis: axis({ type: "category", title: { text: "cluster, by the class it is matched to", standoff: 6 }, showgrid: false }),
          yaxis: axis({ type: "category", title: { text: "class", standoff: 6 }, autorange: "reversed", showgrid: false }),
        }),
      };
    };
  }

  /* Components of rows that are no images: one line a component. */
  function weights(data) {
    return () => {
      const size = Math.max(...data.weights.flat().map(Math.abs)) || 1;
      return {
        traces: [{
          type: "heatmap", z: data.weights, x: data.features.map((each) => `x${each}`), y: data.weights.map((_, place) => String(place + 1)),
          zmin: -size, zmax: size, colorscale: [[0, "rgb(0,18,97)"], [0.17, "rgb(47,117,166)"], [0.33, "rgb(166,200,216)"], [0.5, "rgb(242,241,238)"], [0.67, "rgb(221,181,147)"], [0.83, "rgb(180,95,42)"], [1, "rgb(89,0,8)"]],
          hovertemplate: "component %{y}, feature %{x}: %{z:.3f}<extra></extra>",
        }],
        layout: layout({
          height: 120 + 22 * data.weights.length, margin: { l: 8, r: 8, t: 8, b: 8 },
          xaxis: axis({ type: "category", title: { text: "feature", standoff: 6 } }),
          yaxis: axis({ type: "category", title: { text: "component", standoff: 6 }, autorange: "reversed" }),
        }),
      };
    };
  }

  return { show, repaint, panels, standings, confusion, weights, layout, axis, color, symbol, style, isTouch, escapeHtml };
})();
