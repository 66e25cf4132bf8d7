// Draws one group at a time from the data blocks of the page. Names come from clients: they enter the page by
// `textContent` only, and Plotly's labels, which are markup to it, by `markup`.
"use strict";
(() => {
  // The places of the values in the lists of group_data.py.
  const MEMBER = { id: 0, client: 1, host: 2, instance: 3, from: 4, to: 5, cause: 6, confidence: 7, life: 8,
    fromGeneration: 9, toGeneration: 10, isStartKnown: 11, isEndKnown: 12 };
  const RECORD = { at: 0, life: 1, generation: 2, event: 3, title: 4, members: 5, trigger: 6, confidence: 7, moved: 8,
    pauseLower: 9, pauseUpper: 10, lines: 11 };
  const LAG = { at: 0, records: 1, seconds: 2, bound: 3, partitions: 4, unknown: 5 };
  const INCIDENT = { first: 0, last: 1, severity: 2, kind: 3, evidence: 4, confidence: 5, occurrences: 6, member: 7,
    partitions: 8, explanation: 9, setting: 10, isOpen: 11 };
  const BAR_NUMBERS = 5;
  const UNOWNED = -1;
  const UNKNOWN = -2;
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

  // What charts have in common

  const memberKey = (index) => `#${index + 1}`;
  const look = (index) => ({
    fill: FILLS[index % FILLS.length],
    ink: INKS[index % 2],
    pattern: PATTERNS[Math.floor(index / FILLS.length) % PATTERNS.length],
  });

  function layout(height, settings) {
    const axis = { gridcolor: colour("rule"), linecolor: colour("rule"), zeroline: false, tickfont: { size: 11 } };
    const { xaxis = {}, ...rest } = settings;
    for (const name of Object.keys(rest)) if (name.startsWith("yaxis")) rest[name] = { ...axis, fixedrange: true, ...rest[name] };
    return {
      height, showlegend: false, hovermode: "closest", dragmode: isTouched ? false : "zoom", bargap: 0, barmode: "overlay",
      font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: colour("ink") },
      paper_bgcolor: colour("paper"), plot_bgcolor: colour("paper"),
      margin: { l: isNarrow() ? 84 : 176, r: 10, t: 6, b: 34 },
      hoverlabel: { align: "left", bgcolor: colour("field"), bordercolor: colour("strong-rule"), font: { color: colour("ink"), size: 12 }, namelength: 0 },
      uniformtext: { minsize: 9, mode: "hide" },
      xaxis: { ...axis, type: "date", range: shown && [shown.from, shown.to], ...xaxis },
      ...rest,
    };
  }

  const labelled = (names) => names.map((name) => markup(cut(name, isNarrow() ? 11 : 25)));

  // A tick for each row as long as they can be read, else for every so many.
  function rowAxis(names, height, range) {
    const step = Math.max(1, Math.ceil((names.length * 13) / height));
    const places = names.map((_, place) => place).filter((place) => place % step === 0);
    const texts = labelled(names);
    return { range, tickmode: "array", tickvals: places, ticktext: places.map((place) => texts[place]), showgrid: false };
  }

  const rowsHeight = (count) => Math.min(1400, Math.max(7, Math.min(24, 1100 / Math.max(count, 1))) * count);

  function pattern(shape, fill, line, background = "rgba(0,0,0,0)") {
    return { color: background, line: { color: fill, width: line }, pattern: { shape, fgcolor: fill, bgcolor: background, size: 7, solidity: 0.25 } };
  }

  function barTrace(marker, more = {}) {
    return { type: "bar", orientation: "h", base: [], x: [], y: [], width: 0.84, hovertext: [], hoverinfo: "text", marker, ...more };
  }

  function addBar(trace, row, begin, length, lines, text) {
    trace.base.push(begin);
    trace.x.push(length);
    trace.y.push(row);
    trace.hovertext.push(hover(lines));
    if (text !== undefined) trace.text.push(text);
  }

  function memberTrace(index) {
    const { fill, ink, pattern: shape } = look(index);
    const marker = { color: fill, line: { color: colour("line"), width: 1 }, pattern: { shape, fgcolor: ink, bgcolor: fill, size: 6, solidity: 0.15 } };
    return barTrace(marker, { text: [], textposition: "inside", insidetextanchor: "middle", textangle: 0, insidetextfont: { color: ink, size: 11 }, constraintext: "inside" });
  }

  const statusTrace = (status) => status === "unknown" || status === UNKNOWN
    ? barTrace(pattern("/", colour("hatch"), 0)) : barTrace(pattern("", colour("error"), 1.5));

  function recordLines(data, top, bottom) {
    const at = data.records.flatMap((record) => [record[RECORD.at], record[RECORD.at], null]);
    const y = data.records.flatMap(() => [top, bottom, null]);
    return { type: "scatter", mode: "lines", x: at, y, hoverinfo: "skip", line: { color: colour("line"), width: 1, dash: "dot" } };
  }

  async function draw(id, traces, settings, height, summary) {
    const place = byId(id);
    place.setAttribute("aria-label", summary);
    await Plotly.react(place, traces, layout(height, settings), CONFIG);
  }

  // Ownership

  const memberText = (member) => `${member[MEMBER.id]}${member[MEMBER.client] === "-" ? "" : `, client ${member[MEMBER.client]}`}`
    + `${member[MEMBER.host] ? `, ${member[MEMBER.host]}` : ""}${member[MEMBER.instance] ? `, instance ${member[MEMBER.instance]}` : ""}`;

  function* eachBar(data) {
    for (let place = 0; place < data.bars.length; place += BAR_NUMBERS) {
      const [unit, owner, begin, length, others] = data.bars.slice(place, place + BAR_NUMBERS);
      yield { unit, owner, begin: data.from + begin, length, others };
    }
  }

  const ownerText = (data, { owner, others }) => owner === UNOWNED ? "unowned" : owner === UNKNOWN ? "unknown"
    : `${memberKey(owner)} ${memberText(data.members[owner])}${others ? `, and ${plural(others, "other")}` : ""}`;
  const unitText = ([topic, partition]) => `${topic} ${partition}`;
  const topicOf = (data) => (new Set(data.units.map(([topic]) => topic)).size === 1 ? data.units[0][0] : null);

  function ownershipTraces(data) {
    const count = Math.max(data.units.length, 1);
    const whole = { unknown: statusTrace("unknown"), unowned: statusTrace("unowned") };
    for (const trace of Object.values(whole)) trace.width = count;
    for (const [begin, end, status] of data.spans) {
      const why = status === "unknown" ? "unknown: nobody read the log, or the record of then can't be known" : "unowned: the group had no members, or was not there";
      addBar(whole[status], (count - 1) / 2, begin, end - begin, [why, `${time(begin)} to ${time(end)}`]);
    }
    const byOwner = new Map([[UNOWNED, statusTrace(UNOWNED)], [UNKNOWN, statusTrace(UNKNOWN)]]);
    for (const bar of eachBar(data)) {
      if (!byOwner.has(bar.owner)) byOwner.set(bar.owner, memberTrace(bar.owner));
      const lines = [unitText(data.units[bar.unit]), ownerText(data, bar), `${time(bar.begin)} to ${time(bar.begin + bar.length)}, ${duration(bar.length)}`];
      addBar(byOwner.get(bar.owner), bar.unit, bar.begin, bar.length, lines, bar.owner < 0 ? undefined : memberKey(bar.owner));
    }
    return [...Object.values(whole), ...byOwner.values()];
  }

  function markerTrace(points, y, symbols, colours) {
    return { type: "scatter", mode: "markers", x: points.map(([at]) => at), y: points.map(() => y), cliponaxis: false,
      hovertext: points.map(([, lines]) => hover(lines)), hoverinfo: "text",
      marker: { symbol: symbols, color: colours, size: 9, line: { width: 1, color: colour("ink") } } };
  }

  function drawOwnership(data) {
    const height = rowsHeight(data.units.length);
    const hasIncidents = Boolean(data.incidents?.length);
    const top = hasIncidents ? -3 : -1.9;
    const bottom = Math.max(data.units.length, 1) - 0.5;
    const records = data.records.map((record) => [record[RECORD.at],
      [`${time(record[RECORD.at])}, life ${record[RECORD.life]}, generation ${record[RECORD.generation]}: ${record[RECORD.title]}`, ...record[RECORD.lines]]]);
    const isRebalance = (record) => record[RECORD.event] === "rebalance";
    const traces = [...ownershipTraces(data), recordLines(data, -1.1, bottom),
      markerTrace(records, -1.1, data.records.map((record) => (isRebalance(record) ? "diamond" : "circle-open")), colour("ink"))];
    if (hasIncidents) {
      const points = data.incidents.map((incident) => [incident[INCIDENT.first],
        [`${time(incident[INCIDENT.first])} ${incident[INCIDENT.severity]}: ${incident[INCIDENT.kind]}`, incident[INCIDENT.explanation] ?? ""]]);
      traces.push(markerTrace(points, -2.2, data.incidents.map((incident) => SYMBOLS[incident[INCIDENT.severity]] ?? "circle"),
        data.incidents.map((incident) => colour(incident[INCIDENT.severity] === "info" ? "paper" : incident[INCIDENT.severity]))));
    }
    const topic = topicOf(data);
    put("topic", topic === null ? "" : "All partitions are of the topic ", element("bdi", {}, topic ?? ""));
    const names = data.units.map(topic === null ? unitText : ([, partition]) => (isNarrow() ? String(partition) : `partition ${partition}`));
    const axis = rowAxis(names, height, [bottom, top]);
    axis.tickvals.push(-1.1, ...(hasIncidents ? [-2.2] : []));
    axis.ticktext.push("<i>records</i>", ...(hasIncidents ? ["<i>incidents</i>"] : []));
    const summary = `Timeline of ${plural(data.units.length, "partition")} and their owners, with ${plural(data.records.length, "record")} of the group. The tables say the same.`;
    return draw("ownership", traces, { yaxis: axis }, height + 24 * -top + 44, summary);
  }

  function swatch(kind) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("viewBox", "0 0 28 16");
    svg.setAttribute("aria-hidden", "true");
    const add = (name, attributes, text) => {
      const made = document.createElementNS(svg.namespaceURI, name);
      for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
      if (text) made.textContent = text;
      svg.append(made);
    };
    const box = { x: 1, y: 1, width: 26, height: 14 };
    if (kind === UNKNOWN) {
      add("rect", { ...box, fill: "none" });
      for (let x = 2; x < 28; x += 6) add("line", { x1: x, y1: 15, x2: x + 6, y2: 1, stroke: "var(--hatch)", "stroke-width": 2 });
    } else if (kind === UNOWNED) {
      add("rect", { ...box, fill: "none", stroke: "var(--error)", "stroke-width": 2 });
    } else if (kind === "record" || kind === "other") {
      add("path", kind === "record" ? { d: "M14 3l5 5-5 5-5-5z", fill: "var(--ink)" }
        : { d: "M14 4a4 4 0 1 0 .01 0z", fill: "none", stroke: "var(--ink)", "stroke-width": 1.5 });
    } else {
      const { fill, ink, pattern: shape } = look(kind);
      add("rect", { ...box, fill, stroke: "var(--line)" });
      add("text", { x: 14, y: 12, "text-anchor": "middle", "font-size": 10, fill: ink }, `${kind + 1}${shape}`);
    }
    return svg;
  }

  const LEGEND_MEMBERS = 40;

  function drawLegend(data) {
    const owners = [...new Set([...eachBar(data)].map((bar) => bar.owner))].filter((owner) => owner >= 0).sort((a, b) => a - b);
    const items = owners.slice(0, LEGEND_MEMBERS).map((owner) => {
      const member = data.members[owner];
      const name = member[MEMBER.instance] ?? (member[MEMBER.client] === "-" ? member[MEMBER.id] : member[MEMBER.client]);
      return element("li", {}, swatch(owner), element("bdi", {}, `${memberKey(owner)} ${cut(name, 40)}`));
    });
    if (owners.length > LEGEND_MEMBERS) items.push(element("li", {}, `and ${owners.length - LEGEND_MEMBERS} more members: see the tables`));
    put("legend", element("li", {}, swatch(UNOWNED), "unowned: nobody read it"), element("li", {}, swatch(UNKNOWN), "unknown: the ledger can't tell"),
      element("li", {}, swatch("record"), "rebalance"), element("li", {}, swatch("other"), "other record"), ...items);
  }

  function ownershipTable(data) {
    const whole = data.spans.map(([begin, end, status]) => ["all partitions", status, time(begin), time(end), duration(end - begin)]);
    const lines = [...eachBar(data)].map((bar) => [unitText(data.units[bar.unit]), ownerText(data, bar), time(bar.begin), time(bar.begin + bar.length), duration(bar.length)]);
    return table("Who owned what", [["Partition", ""], ["Owner", "text"], ["From", "time"], ["To", "time"], ["Length", "number"]], [...whole, ...lines]);
  }

  // Lag

  function drawLag(data) {
    const hasLag = Boolean(data.lag?.length);
    byId("lag").hidden = !hasLag;
    byId("lag-note").textContent = hasLag ? "The sum over the group's partitions, and the time lag of the one furthest behind; dotted lines are the group's records."
      : data.lag ? "Lag was not sampled for this group in the time shown." : "Lag is not known: the warehouse has no table of it.";
    for (const id of ["lag-partitions", "lag-table"]) byId(id).closest("details").hidden = !hasLag;
    if (!hasLag) return Promise.resolve();
    const x = data.lag.map((point) => point[LAG.at]);
    const most = (values) => Math.max(1, ...values.filter((value) => value !== null)) * 1.05;
    const line = (y, axis, unit, more = {}) => ({ type: "scatter", mode: x.length > 1 ? "lines" : "markers", x, y, yaxis: axis, hoverinfo: "text",
      hovertext: data.lag.map((point, place) => hover([`${time(point[LAG.at])}: ${unit === "s" ? duration(y[place] === null ? null : y[place] * 1000) : `${counted(y[place])} records`}`,
        `${plural(point[LAG.partitions], "partition")}, lag unknown of ${counted(point[LAG.unknown])}`])), line: { color: colour("link"), width: 2, shape: "hv" }, ...more });
    const recordsOf = data.lag.map((point) => point[LAG.records]);
    const seconds = data.lag.map((point) => point[LAG.seconds]);
    const bounds = data.lag.map((point) => (point[LAG.seconds] === null ? point[LAG.bound] : null));
    const top = [most(recordsOf), most([...seconds, ...bounds])];
    const traces = [{ ...recordLines(data, 0, top[0]), yaxis: "y" }, { ...recordLines(data, 0, top[1]), yaxis: "y2" },
      line(recordsOf, "y"), line(seconds, "y2", "s"), line(bounds, "y2", "s", { line: { color: colour("link"), width: 2, dash: "dash" }, mode: "lines+markers" })];
    const title = (text) => ({ title: { text, font: { size: 12 }, standoff: 4 } });
    const settings = { yaxis: { domain: [0.55, 1], range: [0, top[0]], ...title("records") }, yaxis2: { domain: [0, 0.45], range: [0, top[1]], ...title("seconds") }, xaxis: { anchor: "y2" } };
    return draw("lag", traces, settings, 300, `Lag in records and in seconds over ${plural(x.length, "sample")}. The table says the same.`);
  }

  const lagTable = (data) => table("Lag by time", [["Sampled", "time"], ["Records", "number"], ["Time lag", "number"], ["Partitions", "number"], ["Unknown", "number"]],
    data.lag.map((point) => [time(point[LAG.at]), counted(point[LAG.records]), timeLag(point[LAG.seconds], point[LAG.bound]), counted(point[LAG.partitions]), counted(point[LAG.unknown])]));
  const timeLag = (seconds, bound) => (seconds !== null ? duration(seconds * 1000) : bound !== null ? `at least ${duration(bound * 1000)}` : "-");
  const lagPartitions = (data) => table("Partitions in the newest sample", [["Partition", ""], ["Lag", "number"], ["Time lag", "number"], ["Status", ""], ["Owner", "text"],
    ["Committed", "number"], ["End", "number"], ["Flags", "text"]], data.lag_partitions.map(([topic, partition, lag, seconds, bound, status, owner, committed, end, flags]) =>
    [unitText([topic, partition]), counted(lag), timeLag(seconds, bound), status, owner, counted(committed), counted(end), flags]));

  // Members, records, incidents

  const TENURES_DRAWN = 60;

  function drawTenures(data) {
    const drawn = data.members.map((member, index) => [member, index]).slice(-TENURES_DRAWN);
    byId("tenures").hidden = !drawn.length;
    if (!drawn.length) return Promise.resolve();
    const traces = drawn.map(([member, index], place) => {
      const trace = memberTrace(index);
      const begin = Math.max(member[MEMBER.from], data.from);
      const end = Math.max(begin, Math.min(member[MEMBER.to] ?? data.known_to, data.to));
      addBar(trace, place, begin, end - begin, [`${memberKey(index)} ${memberText(member)}`, tenure(member), leaving(member)], memberKey(index));
      return trace;
    });
    const height = rowsHeight(drawn.length);
    const names = drawn.map(([member, index]) => `${memberKey(index)} ${member[MEMBER.instance] ?? member[MEMBER.client]}`);
    const more = data.members.length > drawn.length ? ` The newest ${drawn.length} of ${data.members.length} are drawn.` : "";
    return draw("tenures", [recordLines(data, -0.5, drawn.length - 0.5), ...traces], { yaxis: rowAxis(names, height, [drawn.length - 0.5, -0.5]) }, height + 50,
      `Tenures of ${plural(data.members.length, "member")}.${more} The table says the same.`);
  }

  const tenure = (member) => `${member[MEMBER.isStartKnown] ? "" : "at the latest "}${time(member[MEMBER.from])} to ${member[MEMBER.to] === null ? "the end of what is known" : time(member[MEMBER.to])}`;
  function leaving(member) {
    if (member[MEMBER.to] === null) return "still a member";
    const cause = member[MEMBER.cause] ?? "cause unknown";
    const confidence = member[MEMBER.confidence];
    return `left: ${cause}${confidence === null || confidence === 1 ? "" : ` (confidence ${confidence.toFixed(2)})`}${member[MEMBER.isEndKnown] ? "" : ", at the latest then"}`;
  }

  function membersTable(data) {
    return table("Members", [["Member", "text"], ["Client", ""], ["Host", ""], ["Instance", ""], ["From", "time"], ["To", "time"], ["Generations", "number"], ["End", "text"]],
      data.members.map((member, index) => [`${memberKey(index)} ${member[MEMBER.id]}`, member[MEMBER.client], member[MEMBER.host], member[MEMBER.instance],
        time(member[MEMBER.from]), member[MEMBER.to] === null ? "now" : time(member[MEMBER.to]),
        `${counted(member[MEMBER.fromGeneration])} to ${member[MEMBER.toGeneration] === null ? "now" : counted(member[MEMBER.toGeneration])}`, leaving(member)]));
  }

  function recordsTable(data) {
    const pause = (record) => (record[RECORD.pauseLower] === null && record[RECORD.pauseUpper] === null ? "-" : `${duration(record[RECORD.pauseLower])} to ${duration(record[RECORD.pauseUpper])}`);
    const trigger = (record) => (record[RECORD.trigger] ? `${record[RECORD.trigger]} (${record[RECORD.confidence]?.toFixed(2) ?? "server log"})` : "-");
    return table("Rebalances and other records, newest first", [["Time", "time"], ["", ""], ["Generation", "number"], ["What", ""], ["Probable trigger", ""], ["Moved", "number"], ["Pause", "time"], ["Details", "text"]],
      [...data.records].reverse().map((record) => [time(record[RECORD.at]), zoomButton(record[RECORD.at]), counted(record[RECORD.generation]), record[RECORD.title], trigger(record),
        counted(record[RECORD.moved]), pause(record), element("ul", {}, ...record[RECORD.lines].map((line) => element("li", {}, line)))]));
  }

  function incidentParts(data) {
    if (data.incidents === null) return [element("p", { class: "absent" }, "Not known: the warehouse has no table of incidents.")];
    if (!data.incidents.length) return [element("p", {}, "None in the period.")];
    return data.incidents.map((incident) => {
      const severity = incident[INCIDENT.severity] in SYMBOLS ? incident[INCIDENT.severity] : "info";
      const facts = [["Seen", `${time(incident[INCIDENT.first])} to ${time(incident[INCIDENT.last])}${incident[INCIDENT.isOpen] ? ", goes on" : ""}`],
        ["Times", counted(incident[INCIDENT.occurrences])], ["Evidence", `${incident[INCIDENT.evidence]}, confidence ${incident[INCIDENT.confidence]?.toFixed(2) ?? "-"}`],
        ["Member", incident[INCIDENT.member]], ["Partitions", incident[INCIDENT.partitions]], ["Setting", incident[INCIDENT.setting]]];
      return element("div", { class: `incident ${severity}` },
        element("h4", {}, element("span", { class: `severity ${severity}` }, incident[INCIDENT.severity] ?? "-"), ` ${incident[INCIDENT.kind]}`),
        element("p", {}, incident[INCIDENT.explanation] ?? ""), factList(element("dl", { class: "facts" }), facts.filter(([, value]) => value)),
        zoomButton(incident[INCIDENT.first], incident[INCIDENT.last]));
    });
  }

  function factList(list, facts) {
    list.replaceChildren(...facts.map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, element("bdi", {}, value)))));
    return list;
  }

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
    const data = JSON.parse(blocks[index].textContent);
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
    factList(byId("facts"), data.facts);
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
    const data = JSON.parse(byId("frequency-data").textContent);
    if (!data || !byId("frequency")) return Promise.resolve();
    const first = Math.floor(data.from / data.window_ms) * data.window_ms;
    const windows = Array.from({ length: Math.ceil((data.to - first) / data.window_ms) }, (_, place) => first + place * data.window_ms);
    const place = new Map(windows.map((at, index) => [at, index]));
    const z = data.names.map(() => windows.map(() => null));
    for (const [row, at, count] of data.cells) if (place.has(at)) z[row][place.get(at)] = count;
    const height = Math.max(60, data.names.length * 17);
    const total = height + 110;
    const texts = z.map((line, row) => line.map((count, column) => hover([`${data.names[row]}: ${plural(count ?? 0, "rebalance")}`, `from ${time(windows[column])}`])));
    const end = windows.at(-1) + data.window_ms;
    const traces = [
      { type: "bar", x: data.totals.map(([at]) => at + data.window_ms / 2), y: data.totals.map(([, count]) => count), width: data.window_ms * 0.86, yaxis: "y2", hoverinfo: "text",
        hovertext: data.totals.map(([at, count]) => hover([`all groups: ${plural(count, "rebalance")}`, `from ${time(at)}`])), marker: { color: colour("strong-rule") } },
      { type: "heatmap", x: [...windows, end], y: [...data.names.keys(), data.names.length].map((row) => row - 0.5), z, text: texts, hoverinfo: "text", xgap: 1, ygap: 1,
        colorscale: [[0, colour("scale-low")], [1, colour("scale-high")]], zmin: 1, zmax: Math.max(2, ...data.cells.map((each) => each[2])),
        colorbar: { thickness: 10, title: { text: isNarrow() ? "" : "rebalances", side: "right", font: { size: 11 } }, outlinewidth: 0, len: height / total, y: 0, yanchor: "bottom", tickformat: "d" } },
    ];
    const settings = { yaxis: { ...rowAxis(data.names, height, [data.names.length - 0.5, -0.5]), domain: [0, height / (total - 40)] },
      yaxis2: { domain: [Math.min(0.97, height / (total - 40) + 0.02), 1], rangemode: "tozero", nticks: 3, tickformat: "d" }, xaxis: { range: [first, end], fixedrange: true } };
    const chart = byId("frequency");
    return Plotly.react(chart, traces, { ...layout(total, settings), dragmode: false }, CONFIG).then(() => {
      chart.removeAllListeners?.("plotly_click");
      chart.on("plotly_click", ({ points: [point] }) => { if (point.data.type === "heatmap") location.hash = `group-${data.groups[Math.round(point.y)]}`; });
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
})();
