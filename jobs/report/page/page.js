// What is shown, and from when to when: the list of groups, the group that is open, the frequency over all of them.

// Time shown

function zoom(from, to) {
  const { data } = shown;
  const length = Math.min(Math.max(to - from, 1000), data.to - data.from);
  shown.from = Math.min(Math.max(from, data.from), data.to - length);
  shown.to = shown.from + length;
  byId("shown-period").textContent = `${time(shown.from)} to ${time(shown.to)}`;
  isRelaying = true;
  const charts = ["ownership", "lag", "tenures"].map(byId).filter((chart) => chart.data && !chart.hidden);
  Promise.all(charts.map((chart) => Plotly.relayout(chart, { "xaxis.range": [shown.from, shown.to] }))).finally(() => { isRelaying = false; });
}

const ZOOMS = { in: [0.25, -0.25], out: [-0.5, 0.5], earlier: [-0.5, -0.5], later: [0.5, 0.5] };
for (const button of document.querySelectorAll("[data-zoom]")) {
  button.onclick = () => {
    const move = ZOOMS[button.dataset.zoom];
    const length = shown.to - shown.from;
    if (move) zoom(shown.from + move[0] * length, shown.to + move[1] * length);
    else zoom(shown.data.from, shown.data.to);
  };
}

function follow(chart) {
  chart.on("plotly_relayout", (change) => {
    const [from, to] = [change["xaxis.range[0]"], change["xaxis.range[1]"]].map((at) => (typeof at === "string" ? Date.parse(`${at.replace(" ", "T")}Z`) : at));
    if (!isRelaying && Number.isFinite(from) && Number.isFinite(to)) zoom(from, to);
  });
}

// The group shown

async function drawCharts() {
  if (!shown) return;
  const { data } = shown;
  await Promise.all([drawOwnership(data), drawLag(data), drawTenures(data)]);
  for (const chart of ["ownership", "lag", "tenures"].map(byId)) {
    if (chart.data && !chart.dataset.followed) {
      chart.dataset.followed = "yes";
      follow(chart);
    }
  }
}

function walk(id, index) {
  const link = byId(id);
  link.hidden = !links[index];
  if (links[index]) link.href = `#group-${index}`;
}

async function show(index) {
  const data = parsed(blocks[index].textContent);
  shown = { index, data, from: data.from, to: data.to };
  byId("group").hidden = false;
  rows.forEach((row) => row.classList.toggle("current", row === rows[index]));
  put("group-name", "Group ", element("bdi", {}, data.name));
  byId("whole-name").hidden = data.whole === null;
  byId("whole-name").open = false;
  byId("whole-name").querySelector("summary").textContent = `The whole name (${counted(data.characters)} characters; what can't be shown is written as an escape)`;
  byId("whole-name").querySelector(".whole").textContent = data.whole ?? "";
  walk("previous", index - 1);
  walk("next", index + 1);
  put("notes", ...data.notes.map((note) => element("p", { class: "note" }, note)));
  factList(byId("facts"), Object.entries(data.facts));
  put("group-incidents", ...incidentParts(data));
  put("records", recordsTable(data));
  putWhenOpened("ownership-table", () => ownershipTable(data));
  putWhenOpened("members", () => membersTable(data));
  putWhenOpened("lag-table", () => lagTable(data));
  putWhenOpened("lag-partitions", () => lagPartitions(data));
  drawLegend(data);
  byId("shown-period").textContent = `${time(data.from)} to ${time(data.to)}`;
  byId("group-name").scrollIntoView();
  byId("group-name").focus({ preventScroll: true });
  await drawCharts();
  byId("group").dataset.drawn = String(index);
}

function follows() {
  const index = Number(/^#group-(\d+)$/.exec(location.hash)?.[1] ?? NaN);
  if (blocks[index] && shown?.index !== index) show(index);
}

// The list of groups

const search = byId("search");
const visible = () => links.filter((link) => !link.closest("tr").hidden).sort((a, b) => (a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1));
const names = links.map((link) => link.textContent.toLowerCase());

search.oninput = () => {
  const wanted = search.value.trim().toLowerCase();
  let found = 0;
  links.forEach((link, index) => {
    const isFound = names[index].includes(wanted);
    rows[index].hidden = !isFound;
    found += isFound;
  });
  byId("found").textContent = wanted ? `${counted(found)} of ${plural(links.length, "group")}` : plural(links.length, "group");
  roam(visible()[0]);
};
search.onkeydown = (event) => {
  const [first] = visible();
  if (event.key === "ArrowDown" && first) { first.focus(); event.preventDefault(); }
  if (event.key === "Enter" && first) first.click();
};
// One stop of the tabulator for the whole list; the arrows go on from there.
function roam(link) {
  for (const each of links) each.tabIndex = each === link ? 0 : -1;
}
byId("group-list").tBodies[0].onkeydown = (event) => {
  const shownLinks = visible();
  const place = shownLinks.indexOf(document.activeElement);
  const step = { ArrowDown: place + 1, ArrowUp: place - 1, Home: 0, End: shownLinks.length - 1 }[event.key];
  if (step === undefined) return;
  event.preventDefault();
  (shownLinks[step] ?? search).focus();
};
byId("group-list").addEventListener("focusin", ({ target }) => { if (links.includes(target)) roam(target); });
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { search.focus(); event.preventDefault(); }
});

[...byId("group-list").tHead.rows[0].cells].forEach((heading, column) => {
  const isNumber = heading.classList.contains("number");
  const value = (row) => {
    const text = row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();
    return isNumber ? (text === "-" || text === "" ? -1 : Number(text.replaceAll(",", ""))) : text.toLowerCase();
  };
  heading.querySelector("button").onclick = () => {
    const order = heading.getAttribute("aria-sort");
    const isDescending = isNumber ? order !== "descending" : order === "ascending";
    for (const other of heading.parentElement.cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", isDescending ? "descending" : "ascending");
    const keyed = rows.map((row) => [value(row), row]);
    keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0) * (isDescending ? -1 : 1));
    byId("group-list").tBodies[0].append(...keyed.map(([, row]) => row));
  };
});

// Frequency over all groups

function drawFrequency() {
  const data = parsed(byId("frequency-data").textContent);
  if (!data || !byId("frequency")) return Promise.resolve();
  const first = Math.floor(data.from / data.window_ms) * data.window_ms;
  const windows = Array.from({ length: Math.ceil((data.to - first) / data.window_ms) }, (_, place) => first + place * data.window_ms);
  const place = new Map(windows.map((at, index) => [at, index]));
  const labels = data.groups.map(({ name }) => name);
  const z = labels.map(() => windows.map(() => null));
  for (const { group, at, rebalances } of data.cells) if (place.has(at)) z[group][place.get(at)] = rebalances;
  const height = Math.max(60, labels.length * 17);
  const total = height + 110;
  const texts = z.map((line, row) => line.map((count, column) => hover([`${labels[row]}: ${plural(count ?? 0, "rebalance")}`, `from ${time(windows[column])}`])));
  const end = windows.at(-1) + data.window_ms;
  const traces = [
    { type: "bar", x: data.totals.map(({ at }) => at + data.window_ms / 2), y: data.totals.map(({ rebalances }) => rebalances), width: data.window_ms * 0.86, yaxis: "y2", hoverinfo: "text",
      hovertext: data.totals.map(({ at, rebalances }) => hover([`all groups: ${plural(rebalances, "rebalance")}`, `from ${time(at)}`])), marker: { color: colour("strong-rule") } },
    { type: "heatmap", x: [...windows, end], y: [...labels.keys(), labels.length].map((row) => row - 0.5), z, text: texts, hoverinfo: "text", xgap: 1, ygap: 1,
      colorscale: [[0, colour("scale-low")], [1, colour("scale-high")]], zmin: 1, zmax: Math.max(2, ...data.cells.map(({ rebalances }) => rebalances)),
      colorbar: { thickness: 10, title: { text: isNarrow() ? "" : "rebalances", side: "right", font: { size: 11 } }, outlinewidth: 0, len: height / total, y: 0, yanchor: "bottom", tickformat: "d" } },
  ];
  const settings = { yaxis: { ...rowAxis(labels, height, [labels.length - 0.5, -0.5]), domain: [0, height / (total - 40)] },
    yaxis2: { domain: [Math.min(0.97, height / (total - 40) + 0.02), 1], rangemode: "tozero", nticks: 3, tickformat: "d" }, xaxis: { range: [first, end], fixedrange: true } };
  const chart = byId("frequency");
  return Plotly.react(chart, traces, { ...layout(total, settings), dragmode: false }, CONFIG).then(() => {
    chart.removeAllListeners?.("plotly_click");
    chart.on("plotly_click", ({ points: [point] }) => { if (point.data.type === "heatmap") location.hash = `group-${data.groups[Math.round(point.y)].index}`; });
  });
}

roam(links[0]);
drawFrequency();
follows();
addEventListener("hashchange", follows);
const redraw = () => { drawFrequency(); drawCharts(); };
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
let wasNarrow = isNarrow();
addEventListener("resize", () => {
  if (isNarrow() !== wasNarrow) { wasNarrow = isNarrow(); redraw(); }
});
