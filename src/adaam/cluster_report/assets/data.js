"use strict";
/* The rows: numbers read from bytes, colours, names, and files to download. */
const Data = (() => {
  const raw = JSON.parse(document.getElementById("data").textContent);
  const KINDS = { i2: Int16Array, i4: Int32Array, u2: Uint16Array };
  const STEPS = 65535;

  function numbers({ kind, bytes }) {
    const text = atob(bytes);
    const buffer = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i += 1) buffer[i] = text.charCodeAt(i);
    return new KINDS[kind](buffer.buffer);
  }

  const rows = numbers(raw.rows); // numbers of the rows shown, ascending
  const labels = numbers(raw.labels);
  const strengths = numbers(raw.strengths);
  const outlierScores = numbers(raw.outlier_scores);
  const layers = raw.layers.map((layer) => ({ ...layer, labels: numbers(layer.labels) }));
  const placeOf = new Map([...rows].map((row, place) => [row, place]));
  // Where values of all rows are held, a row's number finds its own; otherwise its place among those shown.
  const at = (place) => (raw.holds_all ? rows[place] : place);

  const label = (place) => labels[at(place)];
  const strength = (place) => strengths[at(place)] / STEPS;
  const outlierScore = (place) => outlierScores[at(place)] / STEPS;
  const layerLabel = (layer, place) => layers[layer].labels[at(place)];
  const rowName = (place) => (raw.ids ? raw.ids[at(place)] : `row ${rows[place] + raw.first_row}`);
  const labelName = (value) => (value < 0 ? "no cluster" : `cluster ${value}`);
  const describe = (place) => `${rowName(place)}, ${labelName(label(place))}, strength ${strength(place).toFixed(2)}`;

  const color = (number) => (number < 0 ? raw.outlier[Theme.current()] : raw.palette[Theme.current()][number % raw.palette.light.length]);
  const every = Array.from(rows, (_, place) => place);
  const number = (value) => (value === null ? "–" : typeof value === "string" ? value : Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en").replace("-", "−") : String(Number(value.toPrecision(4))).replace("-", "−"));

  // A spreadsheet would take words that begin so for a formula.
  const plain = (text) => (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text);
  const quoted = (value) => { const text = plain(String(value ?? "")); return /[",\n\r]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text; };

  /* One line a row: its number or id, cluster, strength, outlier score, layers. */
  function csv(indices, rowNumber) {
    const heads = [raw.ids ? "id" : "row", "cluster", "strength", "outlier_score", ...layers.map((_, k) => `layer_${k + 1}`)];
    const lines = [heads.join(",")];
    for (const i of indices) {
      lines.push([raw.ids ? quoted(raw.ids[i]) : rowNumber(i), labels[i], (strengths[i] / STEPS).toFixed(4), (outlierScores[i] / STEPS).toFixed(4), ...layers.map((layer) => layer.labels[i])].join(","));
    }
    return `${lines.join("\n")}\n`;
  }
  const rowNumber = (i) => (raw.holds_all ? i : rows[i]) + raw.first_row;
  const csvOfAll = () => csv(labels.keys(), rowNumber);
  const csvOf = (places) => csv(places.map(at), rowNumber);

  function download(text, name) {
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    const link = Dom.make("a", { href: url, download: name });
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  const fileName = (part) => `${raw.title.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|[-.]+$/g, "").slice(0, 60) || "clusters"}-${part}.csv`;

  return { raw, rows, every, placeOf, layers, label, strength, outlierScore, layerLabel, rowName, labelName, describe, color, number, csvOf, csvOfAll, download, fileName };
})();

/* Pictures of rows, once their sheet is read. */
const Pictures = (() => {
  const { images } = Data.raw;
  let sheet = null;
  function draw(canvas) {
    if (sheet) Dom.cut(canvas, sheet, images.columns, Number(canvas.dataset.place), images);
  }
  async function start() {
    if (!images) return;
    sheet = await Dom.loaded(images.url);
    document.querySelectorAll("canvas[data-place]").forEach(draw);
  }
  function canvas(place, label) {
    const element = Dom.make("canvas", { "data-place": place, ...(label ? { role: "img", "aria-label": label } : { "aria-hidden": "true" }) });
    draw(element);
    return element;
  }
  return { start, canvas, has: Boolean(images) };
})();
