"use strict";
/* A scatter of rows: names at its groups, the box under the pointer, a ring around the row that is kept, arrow keys. */
class Stage {
  /*
   * stage, plot, ring, live: elements. points: the two lists of coordinates now shown. kept: the row with the ring.
   * keep: what to do with a row that is clicked or reached by keys. say: a row in words. tip: elements that show a row.
   */
  constructor(parts) {
    Object.assign(this, parts);
    this.tipBox = document.getElementById("tip");
    this.pointer = "mouse";
  }

  static range(values) {
    let [low, high] = [Infinity, -Infinity];
    for (const value of values) { low = Math.min(low, value); high = Math.max(high, value); }
    const room = (high - low || 1) * 0.04;
    return [low - room, high + room];
  }

  static QUIET = { showticklabels: false, ticks: "", zeroline: false, showgrid: false, showline: false };

  /* Listen to a plot that has been drawn. */
  bind() {
    this.plot.on("plotly_hover", ({ points, event }) => {
      if (this.pointer !== "touch" && event) Dom.showTip(this.tipBox, event, ...this.tip(points[0].customdata));
    });
    this.plot.on("plotly_unhover", () => this.hideTip());
    this.plot.on("plotly_click", ({ points }) => this.keep(points[0].customdata));
    this.plot.on("plotly_relayout", () => this.placeRing());
    this.stage.addEventListener("pointermove", (event) => { this.pointer = event.pointerType; });
    this.stage.addEventListener("mouseleave", () => this.hideTip());
    this.stage.addEventListener("keydown", (event) => this.key(event));
  }

  hideTip() {
    this.tipBox.hidden = true;
  }

  placeRing() {
    const area = this.plot.querySelector(".nsewdrag");
    const row = this.kept();
    if (!area || row === null) { this.ring.hidden = true; return; }
    const [x, y] = this.points().map((axis) => axis[row]);
    const { xaxis, yaxis } = this.plot.layout;
    const [box, home] = [area.getBoundingClientRect(), this.stage.getBoundingClientRect()];
    const across = (x - xaxis.range[0]) / (xaxis.range[1] - xaxis.range[0]);
    const up = (y - yaxis.range[0]) / (yaxis.range[1] - yaxis.range[0]);
    this.ring.hidden = across < 0 || across > 1 || up < 0 || up > 1;
    const [left, top] = [box.left - home.left - this.stage.clientLeft, box.top - home.top - this.stage.clientTop];
    Object.assign(this.ring.style, { left: `${left + across * box.width}px`, top: `${top + (1 - up) * box.height}px` });
  }

  /* Arrow keys go to the nearest row in their direction. */
  key(event) {
    const step = Dom.ARROWS[event.key];
    if (!step || event.target !== this.stage) return;
    event.preventDefault();
    this.hideTip();
    const next = this.kept() === null ? 0 : Dom.towards(this.points(), this.kept(), step);
    if (next === null) return;
    this.keep(next, true);
    this.live.textContent = this.say(next);
  }

  /* The rows of a group around the place where most of them lie: a group may consist of several islands. */
  static densest(rows, x, y, radius) {
    const step = Math.max(1, Math.floor(rows.length / 150));
    const some = rows.filter((_, i) => i % step === 0);
    const near = (row, others) => others.filter((other) => Math.hypot(x[other] - x[row], y[other] - y[row]) < radius);
    const best = some.reduce((found, row) => { const n = near(row, some).length; return n > found.n ? { row, n } : found; }, { row: rows[0], n: 0 });
    return near(best.row, rows);
  }

  /* Words in at most two lines of about so many signs. */
  static lines(words, length = 20) {
    const lines = [""];
    // Lines end at a comma where they can.
    const parts = words.split(", ").map((part, i, all) => (i < all.length - 1 ? `${part},` : part));
    for (const word of parts.flatMap((part) => (part.length <= length ? [part] : part.split(" ")))) {
      const last = lines[lines.length - 1];
      if (last && last.length + word.length >= length) lines.push(word);
      else lines[lines.length - 1] = last ? `${last} ${word}` : word;
    }
    const cut = (line) => (line.length > length + 4 ? `${line.slice(0, length + 3)}…` : line);
    return lines.length > 2 ? [cut(lines[0]), cut(`${lines[1].replace(/,$/, "")} …`)] : lines.map(cut);
  }

  /*
   * Annotations that name groups: a tag where most of their rows lie and, where there is room beside them, words. Each
   * group has rows, a tag, a colour and perhaps words; the largest groups are named first. The box is the plot's in pixels.
   */
  static names(groups, [x, y], { width, height }, [xRange, yRange]) {
    const size = groups.length > 40 ? 10 : 11;
    const across = (value) => ((value - xRange[0]) / (xRange[1] - xRange[0])) * width;
    const down = (value) => (1 - (value - yRange[0]) / (yRange[1] - yRange[0])) * height;
    const at = (values, share) => values[Math.min(values.length - 1, Math.floor(share * values.length))];
    const shared = { showarrow: false, captureevents: false, font: { size, color: Plot.style("--ink") } };
    const [px, py] = [x.map(across), y.map(down)];
    const sorted = (rows, axis) => rows.map((row) => axis[row]).sort((a, b) => a - b);
    const spots = groups.map((group) => { const rows = Stage.densest(group.rows, px, py, 0.09 * Math.max(width, height)); return { ...group, xs: sorted(rows, x), ys: sorted(rows, y) }; }).sort((a, b) => b.rows.length - a.rows.length);
    const tagSize = ({ tag }) => [tag.length * size * 0.35 + 5, size * 0.75 + 4]; // half of its width and height
    const taken = spots.map((spot) => { const { xs, ys } = spot; const [half, high] = tagSize(spot); const [cx, cy] = [across(at(xs, 0.5)), down(at(ys, 0.5))]; return [cx - half, cy - high, cx + half, cy + high]; });
    const tags = spots.map(({ xs, ys, tag, color }) => ({
      ...shared, x: at(xs, 0.5), y: at(ys, 0.5), text: `<b>${Plot.escapeHtml(tag)}</b>`, bgcolor: Plot.style("--panel"), bordercolor: color, borderwidth: 1.5, borderpad: 2, opacity: 0.9,
    }));
    const covered = (box) => px.reduce((sum, left, i) => sum + (left > box[0] && left < box[2] && py[i] > box[1] && py[i] < box[3]), 0);
    const isFree = (box) => box[0] >= 0 && box[2] <= width && box[1] >= 0 && box[3] <= height && taken.every((other) => box[2] < other[0] || other[2] < box[0] || box[3] < other[1] || other[3] < box[1]);
    const words = spots.filter((spot) => spot.words).flatMap((spot) => {
      const lines = Stage.lines(spot.words);
      const [half, high] = [Math.max(...lines.map((line) => line.length)) * size * 0.3 + 3, lines.length * size * 0.66 + 3];
      const [tagHalf, tagHigh] = tagSize(spot);
      const [cx, cy] = [across(at(spot.xs, 0.5)), down(at(spot.ys, 0.5))];
      // Beside the rows, and beside the group's own number where they all lie beneath it.
      const [left, right] = [Math.min(across(at(spot.xs, 0.02)), cx - tagHalf), Math.max(across(at(spot.xs, 0.98)), cx + tagHalf)];
      const [bottom, top] = [Math.max(down(at(spot.ys, 0.02)), cy + tagHigh), Math.min(down(at(spot.ys, 0.98)), cy - tagHigh)];
      const boxes = [[cx, bottom + high + 4], [cx, top - high - 4], [right + half + 6, cy], [left - half - 6, cy]].map(([mx, my]) => [mx - half, my - high, mx + half, my + high]).filter(isFree);
      if (!boxes.length) return [];
      const counts = boxes.map(covered);
      const least = Math.min(...counts);
      if (least > 2 + 0.004 * x.length) return [];
      const box = boxes[counts.indexOf(least)];
      taken.push(box);
      const [mx, my] = [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
      return [{ ...shared, x: xRange[0] + (mx / width) * (xRange[1] - xRange[0]), y: yRange[0] + (1 - my / height) * (yRange[1] - yRange[0]), text: lines.map(Plot.escapeHtml).join("<br>"), name: "words" }];
    });
    return [...words, ...tags];
  }
}
