"use strict";
/* Elements made in one call, rows of buttons, pictures cut from a sheet, the box under the pointer, the next point in a direction. */
const Dom = (() => {
  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  const loaded = (url) => new Promise((resolve, reject) => {
    const image = new Image();
    image.onload = () => resolve(image);
    image.onerror = () => reject(new Error("a picture of the page could not be read"));
    image.src = url;
  });

  /* Draw one of the equal tiles of a sheet into a canvas. */
  function cut(canvas, image, nColumns, place, { height, width }) {
    Object.assign(canvas, { width, height });
    const [x, y] = [(place % nColumns) * width, Math.floor(place / nColumns) * height];
    canvas.getContext("2d").drawImage(image, x, y, width, height, 0, 0, width, height);
  }

  /* Show the box under the pointer, inside the window. */
  function showTip(tip, event, ...children) {
    tip.replaceChildren(...children);
    tip.hidden = false;
    const room = 16;
    const box = tip.getBoundingClientRect();
    const left = event.clientX + room + box.width > innerWidth ? event.clientX - room - box.width : event.clientX + room;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, Math.min(event.clientY + room, innerHeight - box.height - 4))}px`;
  }

  /* The nearest point within 45 degrees of a direction; null where there is none. */
  function towards([x, y], from, [dx, dy]) {
    let [best, least] = [null, Infinity];
    for (let i = 0; i < x.length; i += 1) {
      const along = (x[i] - x[from]) * dx + (y[i] - y[from]) * dy;
      const aside = Math.abs((x[i] - x[from]) * dy) + Math.abs((y[i] - y[from]) * dx);
      const far = along + 2 * aside;
      if (i !== from && along > 0 && aside <= along && far < least) [best, least] = [i, far];
    }
    return best;
  }

  /* A row of buttons, one of them pressed. */
  function pick(legend, current, choices, chosen) {
    return make("fieldset", { class: "switch" }, make("legend", {}, legend), ...choices.map(([value, words]) => make("button", {
      type: "button", "data-value": value, "aria-pressed": String(value === current),
      onclick: (event) => {
        for (const each of event.currentTarget.parentElement.querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === event.currentTarget));
        chosen(value);
      },
    }, words)));
  }

  const fact = (name, ...value) => make("div", {}, make("dt", {}, name), make("dd", {}, ...value));

  const ARROWS = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
  return { make, loaded, cut, showTip, towards, pick, fact, ARROWS };
})();
