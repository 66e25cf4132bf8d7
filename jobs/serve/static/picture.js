// The picture of a group: what is under the pointer, or was gone to by arrow keys, is said at once; + and -, the wheel
// with Ctrl and shifted arrows change the window where the page can.
"use strict";
const pictures = (() => {
  const said = (figure, shape, x, y) => {
    const tip = figure.querySelector(".tip");
    figure.querySelector(".chosen")?.classList.remove("chosen");
    tip.textContent = shape?.querySelector("title")?.textContent ?? "";
    if (!shape) return;
    shape.classList.add("chosen");
    const box = shape.getBoundingClientRect();
    tip.style.left = `${Math.max(Math.min(x ?? box.left, innerWidth - tip.offsetWidth - 12), 8)}px`;
    tip.style.top = `${(y ?? box.bottom) + 14}px`;
  };
  const lanesOf = (figure) => [...figure.querySelectorAll("[data-lane]")].filter((each) => each.checkVisibility());
  const shapesOf = (lane) => [...lane.querySelectorAll("[data-tip]")];
  const step = (figure, key) => {
    const lanes = lanesOf(figure), chosen = figure.querySelector("[data-lane] .chosen");
    const at = chosen ? lanes.indexOf(chosen.closest("[data-lane]")) : -1;
    if (at < 0) return said(figure, lanes[0] && shapesOf(lanes[0])[0]);
    const now = shapesOf(lanes[at]), place = now.indexOf(chosen);
    if (key === "ArrowLeft" || key === "ArrowRight") return said(figure, now[place + (key === "ArrowLeft" ? -1 : 1)] ?? chosen);
    const other = lanes[at + (key === "ArrowUp" ? -1 : 1)];
    if (!other) return;
    const left = parseFloat(chosen.getAttribute("x"));
    said(figure, shapesOf(other).filter((each) => parseFloat(each.getAttribute("x")) <= left).at(-1) ?? shapesOf(other)[0]);
    other.scrollIntoView({ block: "nearest" });
  };
  const changed = (figure, factor, shift, share = 0.5) => {
    const since = Date.parse(figure.dataset.since), until = Date.parse(figure.dataset.until), lasts = until - since;
    const begin = since + lasts * shift + lasts * share * (1 - factor);
    figure.dataset.since = new Date(begin).toISOString();
    figure.dataset.until = new Date(begin + lasts * factor).toISOString();
    figure.dispatchEvent(new CustomEvent("window", { bubbles: true, detail: [begin, begin + lasts * factor] }));
  };
  const KEYS = { "+": [1 / 1.5, 0], "=": [1 / 1.5, 0], "-": [1.5, 0] };
  const wire = (root) => {
    for (const figure of root.querySelectorAll("figure.picture")) {
      figure.addEventListener("pointermove", (event) => {
        const shape = event.target.closest?.("[data-tip]") ?? document.elementsFromPoint(event.clientX, event.clientY).find((each) => each.matches("[data-tip]"));
        said(figure, shape, event.clientX, event.clientY);
      });
      figure.addEventListener("pointerleave", () => said(figure));
      figure.addEventListener("blur", () => said(figure));
      figure.addEventListener("keydown", (event) => {
        if (event.target !== figure || event.ctrlKey || event.metaKey || event.altKey) return;
        const pan = event.shiftKey && { ArrowLeft: -0.25, ArrowRight: 0.25 }[event.key];
        if (pan) changed(figure, 1, pan);
        else if (KEYS[event.key]) changed(figure, ...KEYS[event.key]);
        else if (event.key === "Escape") said(figure);
        else if (event.key.startsWith("Arrow")) step(figure, event.key);
        else return;
        event.preventDefault();
      });
      figure.addEventListener("wheel", (event) => {
        const line = event.target.closest?.(".timeline");
        if (!line || !event.ctrlKey) return;
        event.preventDefault();
        const box = line.getBoundingClientRect();
        changed(figure, event.deltaY > 0 ? 1.25 : 0.8, 0, (event.clientX - box.left) / box.width);
      }, { passive: false });
    }
  };
  wire(document);
  return { wire };
})();
