"use strict";
/* Tables sort by any column; cells without a value stay at the end either way. */
const Tables = (() => {
  const value = (row, place) => row.cells[place].dataset.value;
  const isEmpty = (text) => text === "" || text === "–";

  function sort(table, place) {
    const heads = [...table.tHead.rows[0].cells];
    const head = heads[place];
    const isNumber = head.classList.contains("number");
    // Of numbers the largest matter most, of words the first.
    const first = isNumber ? "descending" : "ascending";
    const second = isNumber ? "ascending" : "descending";
    const order = head.getAttribute("aria-sort") === first ? second : first;
    heads.forEach((each) => each.setAttribute("aria-sort", each === head ? order : "none"));
    const sign = order === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => {
      const [x, y] = [value(a, place), value(b, place)];
      if (isEmpty(x) || isEmpty(y)) return isEmpty(x) - isEmpty(y);
      const [u, v] = [parseFloat(x), parseFloat(y)];
      const byNumber = isNumber && !Number.isNaN(u) && !Number.isNaN(v);
      return sign * (byNumber ? u - v : x.localeCompare(y, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...rows);
  }

  function start() {
    for (const table of document.querySelectorAll("table.sortable")) {
      [...table.tHead.rows[0].cells].forEach((head, place) => {
        head.querySelector("button").addEventListener("click", () => sort(table, place));
      });
    }
  }
  return { start };
})();
