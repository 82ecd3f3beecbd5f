"use strict";
/* Before anything is painted: the theme that was chosen here before, or the system's own. */
const Theme = (() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  const listeners = [];
  // Storage may be switched off, and often is for pages from a file: the choice then lasts as long as the page.
  let chosen = null;
  try { chosen = localStorage.getItem("adaam-theme"); } catch { /* nothing is kept */ }

  let isPrinted = false; // paper is light
  const current = () => (isPrinted ? "light" : chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light");
  const apply = () => {
    root.dataset.theme = current();
    listeners.forEach((listener) => listener());
  };
  const toggle = () => {
    chosen = current() === "dark" ? "light" : "dark";
    try { localStorage.setItem("adaam-theme", chosen); } catch { /* nothing is kept */ }
    apply();
  };
  system.addEventListener("change", apply);
  const print = (isNow) => { isPrinted = isNow; root.classList.toggle("printed", isNow); apply(); };
  addEventListener("beforeprint", () => print(true));
  addEventListener("afterprint", () => print(false));
  apply();
  return { current, toggle, onChange: (listener) => listeners.push(listener) };
})();
