// What every part of the page is made of: the data, texts, and elements. Names come from
// clients: they enter the page by `textContent` only, and Plotly's labels, which are markup to it, by `markup`.

// What a bar or a span says where no member owns the partition: the ledger's own words.
const UNOWNED = "unowned";
const RESERVED = "reserved";
const UNKNOWN = "unknown";
// Light and dark fills in turn: neighbours differ in brightness too. After the eighth a pattern tells the next eight.
const FILLS = ["#0072b2", "#e69f00", "#00755c", "#56b4e9", "#b84a00", "#f0e442", "#8f4a80", "#e8a5c8"];
const INKS = ["#ffffff", "#000000"];
const PATTERNS = ["", "/", "x", "-", ".", "|", "+", "\\"];
const SYMBOLS = { error: "x", warning: "triangle-up", info: "circle" };
const HOVER_LINES_MAX = 14;
const HOVER_CHARACTERS = 84;
const MINUTE = 60000;

const byId = (id) => document.getElementById(id);
const blocks = [...document.querySelectorAll("script.group-data")];
const links = [...byId("group-list").querySelectorAll("tbody a")];
const rows = links.map((link) => link.closest("tr"));
const isNarrow = () => window.innerWidth < 640;
const isTouched = window.matchMedia("(pointer: coarse)").matches;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const CONFIG = { displayModeBar: false, displaylogo: false, responsive: true, doubleClick: false, showTips: false };

let shown = null; // the group: its data, and from when to when its charts are drawn
let isRelaying = false;

// The data of a block, with rows as objects: embed.py writes a list of rows as a list for each name.

const parsed = (text) => JSON.parse(text, (_, value) => (value?.columns ? rowsOf(value.columns) : value));

function rowsOf(columns) {
  const names = Object.keys(columns);
  return columns[names[0]].map((_, place) => Object.fromEntries(names.map((name) => [name, columns[name][place]])));
}

// Text

const markup = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const cut = (text, most) => (text.length <= most ? text : `${text.slice(0, Math.ceil(most / 2) - 1)}…${text.slice(-Math.floor(most / 2))}`);
const time = (at) => (at === null ? "-" : new Date(at).toISOString().slice(0, 19).replace("T", " "));
const counted = (value) => (value === null || value === undefined ? "-" : value.toLocaleString("en-US"));
const plural = (count, noun) => `${counted(count)} ${noun}${count === 1 ? "" : "s"}`;

function duration(ms) {
  if (ms === null || ms === undefined) return "-";
  if (ms < 1000) return ms === 0 ? "0 s" : `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const parts = [[Math.floor(seconds / 86400), "d"], [Math.floor(seconds / 3600) % 24, "h"],
    [Math.floor(seconds / 60) % 60, "min"], [seconds % 60, "s"]];
  const first = parts.findIndex(([count]) => count > 0);
  return parts.slice(first, first + 2).filter(([count]) => count > 0).map((part) => part.join(" ")).join(" ");
}

function hover(lines) {
  const wrapped = lines.flatMap((line) => {
    const words = [];
    for (let rest = String(line); rest; rest = rest.slice(words.at(-1).length).trimStart()) {
      const space = rest.length <= HOVER_CHARACTERS ? -1 : rest.lastIndexOf(" ", HOVER_CHARACTERS);
      words.push(rest.slice(0, space > 0 ? space : HOVER_CHARACTERS));
    }
    return words;
  });
  if (wrapped.length > HOVER_LINES_MAX) wrapped.splice(HOVER_LINES_MAX - 1, Infinity, "… more in the table below");
  return wrapped.map(markup).join("<br>");
}

// The page's parts

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null));
  return made;
}

const cell = (value) => (value instanceof Node ? value : document.createTextNode(value ?? "-"));

// `columns` are [title, class]; the first one heads its row.
// On a narrow screen each line becomes a block (page.css); the roles stay what they are then.
function table(label, columns, lines) {
  if (!lines.length) return element("p", {}, "Nothing in the time shown.");
  const head = element("tr", { role: "row" }, ...columns.map(([title, look]) => element("th", { scope: "col", role: "columnheader", class: look }, title)));
  const body = lines.map((line) => element("tr", { role: "row" }, ...line.map((value, place) => {
    const [title, look] = columns[place];
    const more = place ? { role: "cell" } : { scope: "row", role: "rowheader" };
    return element(place ? "td" : "th", { ...more, class: look, "data-title": title }, cell(value));
  })));
  const made = element("table", { class: "cards", role: "table" }, element("thead", { role: "rowgroup" }, head), element("tbody", { role: "rowgroup" }, ...body));
  return element("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, made);
}

const put = (id, ...children) => byId(id).replaceChildren(...children);

// A table of thousands of rows is made when somebody opens it.
function putWhenOpened(id, make) {
  const details = byId(id).closest("details");
  put(id);
  details.open = false;
  details.ontoggle = () => {
    if (details.open && !byId(id).hasChildNodes()) put(id, make());
  };
}

function zoomButton(at, last = at) {
  const button = element("button", { type: "button" }, "Show");
  button.setAttribute("aria-label", `Show ${time(at)} in the charts`);
  button.onclick = () => {
    const margin = Math.max(5 * MINUTE, (last - at) / 4);
    zoom(at - margin, last + margin);
    byId("ownership-title").scrollIntoView();
    byId("ownership-title").focus({ preventScroll: true });
  };
  return button;
}
