"use strict";
/* Start everything; draw anew when the theme or the width changes. */
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  Plot.themeButton(document.getElementById("theme"));
  Plot.follow(() => Exhibits.repaint());

  Tables.start();
  if (data.standings.length) Charts.show(document.getElementById("overview"), Charts.standings(data.standings));
  for (const chart of data.charts) Charts.show(document.getElementById(chart.name), Charts.panels(chart));
  Exhibits.start();
  document.documentElement.dataset.ready = "true";
})();
