"use strict";
/* Start everything; draw anew when the theme or the width changes. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const button = document.getElementById("theme");
  const name = () => button.setAttribute("aria-label", `Switch to the ${Theme.current() === "dark" ? "light" : "dark"} theme`);
  button.addEventListener("click", Theme.toggle);
  const repaint = () => { name(); Charts.repaint(); Exhibits.repaint(); };
  Theme.onChange(repaint);
  name();

  Tables.start();
  if (data.overview.standings.length) Charts.show(document.getElementById("overview"), Charts.standings(data.overview));
  for (const chart of data.charts) Charts.show(document.getElementById(chart.name), Charts.panels(chart));
  Exhibits.start();

  let width = innerWidth;
  let waiting = 0;
  addEventListener("resize", () => {
    if (innerWidth === width) return;
    width = innerWidth;
    clearTimeout(waiting);
    waiting = setTimeout(repaint, 150);
  });
  document.documentElement.dataset.ready = "true";
})();
