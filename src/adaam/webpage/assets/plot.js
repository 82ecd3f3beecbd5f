"use strict";
/* What all charts share: the theme's colours, axes, and drawing anew when theme or width change. */
const Plot = (() => {
  // On a touch screen a finger scrolls the page; dragging and its buttons are for a mouse.
  const isTouch = () => matchMedia("(pointer: coarse)").matches;
  const CONFIG = {
    displaylogo: false, responsive: false, showTips: false, displayModeBar: isTouch() ? false : "hover",
    modeBarButtons: [["zoom2d", "pan2d", "resetScale2d", "toImage"]],
  };
  const drawn = new Map();

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const escapeHtml = (text) => String(text).replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

  function axis(more) {
    return {
      gridcolor: style("--line"), linecolor: style("--line"), zerolinecolor: style("--line"), automargin: true,
      tickfont: { size: 12 }, ...more,
    };
  }

  function layout(more) {
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", margin: { l: 8, r: 8, t: 28, b: 8 },
      font: { family: "ui-sans-serif, system-ui, sans-serif", size: 13, color: style("--ink") },
      hoverlabel: { bgcolor: style("--raised"), bordercolor: style("--line"), font: { color: style("--ink"), size: 13 } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: style("--muted"), activecolor: style("--ink") },
      dragmode: isTouch() ? false : "zoom", hovermode: "closest", ...more,
    };
  }

  /* Draw into an element, and again whenever the theme or the width changes. */
  function show(element, figure, config = {}) {
    const paint = () => {
      if (!element.isConnected || element.offsetWidth === 0) return Promise.resolve();
      const { traces, layout: wanted } = figure(element.clientWidth);
      return Plotly.react(element, traces, { ...wanted, width: element.clientWidth }, { ...CONFIG, ...config });
    };
    drawn.set(element, paint);
    return paint();
  }

  const repaint = () => drawn.forEach((paint) => paint());

  /* Repaint when the theme or the width of the window changes, then let the caller do its part. */
  function follow(after) {
    const anew = () => { repaint(); after(); };
    Theme.onChange(anew);
    let width = innerWidth;
    let waiting = 0;
    addEventListener("resize", () => {
      if (innerWidth === width) return;
      width = innerWidth;
      clearTimeout(waiting);
      waiting = setTimeout(anew, 150);
    });
  }

  /* The button that switches the theme says what it would switch to. */
  function themeButton(button) {
    const name = () => button.setAttribute("aria-label", `Switch to the ${Theme.current() === "dark" ? "light" : "dark"} theme`);
    button.addEventListener("click", Theme.toggle);
    Theme.onChange(name);
    name();
  }

  return { show, repaint, follow, themeButton, layout, axis, style, isTouch, escapeHtml };
})();
