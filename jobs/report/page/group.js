// One group: its charts by Plotly, and the tables that say the same.

// Ownership

const memberText = (member) => `${member.member_id}${member.client_id === null ? "" : `, client ${member.client_id}`}`
  + `${member.client_host ? `, ${member.client_host}` : ""}${member.group_instance_id ? `, instance ${member.group_instance_id}` : ""}`;

// `owner` is the place of a member, or the status of a partition that no member owns.
const eachBar = (data) => data.bars.map((bar) => ({ ...bar, begin: data.from + bar.begin }));
const isMember = (owner) => typeof owner === "number";
const ownerText = (data, { owner, others, reserved_for: reservedFor }) => isMember(owner)
  ? `${memberKey(owner)} ${memberText(data.members[owner])}${others ? `, and ${plural(others, "other")}` : ""}`
  : owner === RESERVED ? `${owner} for ${memberKey(reservedFor)} ${memberText(data.members[reservedFor])}` : owner;
const unitText = ({ topic, partition }) => `${topic} ${partition}`;
const topicOf = (data) => (new Set(data.units.map(({ topic }) => topic)).size === 1 ? data.units[0].topic : null);

function ownershipTraces(data) {
  const count = Math.max(data.units.length, 1);
  const whole = { [UNKNOWN]: statusTrace(UNKNOWN), [UNOWNED]: statusTrace(UNOWNED) };
  for (const trace of Object.values(whole)) trace.width = count;
  for (const { from: begin, to: end, status } of data.spans) {
    const why = status === UNKNOWN ? "unknown: nobody read the log, or the record of then can't be known" : "unowned: the group had no members, or was not there";
    addBar(whole[status], (count - 1) / 2, begin, end - begin, [why, `${time(begin)} to ${time(end)}`]);
  }
  const byOwner = new Map([UNOWNED, RESERVED, UNKNOWN].map((status) => [status, statusTrace(status)]));
  for (const bar of eachBar(data)) {
    if (!byOwner.has(bar.owner)) byOwner.set(bar.owner, memberTrace(bar.owner));
    const lines = [unitText(data.units[bar.unit]), ownerText(data, bar), `${time(bar.begin)} to ${time(bar.begin + bar.length)}, ${duration(bar.length)}`];
    addBar(byOwner.get(bar.owner), bar.unit, bar.begin, bar.length, lines, isMember(bar.owner) ? memberKey(bar.owner) : undefined);
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
  const records = data.records.map((record) => [record.at,
    [`${time(record.at)}, incarnation ${record.incarnation}, generation ${record.generation}: ${record.title}`, ...record.lines]]);
  const isRebalance = (record) => record.event === "rebalance";
  const traces = [...ownershipTraces(data), recordLines(data, -1.1, bottom),
    markerTrace(records, -1.1, data.records.map((record) => (isRebalance(record) ? "diamond" : "circle-open")), colour("ink"))];
  if (hasIncidents) {
    const points = data.incidents.map((incident) => [incident.first_seen_at,
      [`${time(incident.first_seen_at)} ${incident.severity}: ${incident.kind}`, incident.explanation ?? ""]]);
    traces.push(markerTrace(points, -2.2, data.incidents.map((incident) => SYMBOLS[incident.severity] ?? "circle"),
      data.incidents.map((incident) => colour(incident.severity === "info" ? "paper" : incident.severity))));
  }
  const topic = topicOf(data);
  put("topic", topic === null ? "" : "All partitions are of the topic ", element("bdi", {}, topic ?? ""));
  const names = data.units.map(topic === null ? unitText : ({ partition }) => (isNarrow() ? String(partition) : `partition ${partition}`));
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
  } else if (kind === RESERVED) {
    add("rect", { ...box, fill: "none", stroke: "var(--hatch)", "stroke-width": 2 });
    for (let x = 6; x < 26; x += 5) add("circle", { cx: x, cy: 8, r: 1.5, fill: "var(--hatch)" });
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
  const owners = [...new Set(data.bars.map((bar) => bar.owner))].filter(isMember).sort((a, b) => a - b);
  const items = owners.slice(0, LEGEND_MEMBERS).map((owner) => {
    const member = data.members[owner];
    const name = member.group_instance_id ?? member.client_id ?? member.member_id;
    return element("li", {}, swatch(owner), element("bdi", {}, `${memberKey(owner)} ${cut(name, 40)}`));
  });
  if (owners.length > LEGEND_MEMBERS) items.push(element("li", {}, `and ${owners.length - LEGEND_MEMBERS} more members: see the tables`));
  const hasReserved = data.bars.some(({ owner }) => owner === RESERVED);
  const reserved = hasReserved ? [element("li", {}, swatch(RESERVED), "reserved: its static member is away")] : [];
  put("legend", element("li", {}, swatch(UNOWNED), "unowned: nobody read it"), ...reserved, element("li", {}, swatch(UNKNOWN), "unknown: the ledger can't tell"),
    element("li", {}, swatch("record"), "rebalance"), element("li", {}, swatch("other"), "other record"), ...items);
}

function ownershipTable(data) {
  const whole = data.spans.map(({ from, to, status }) => ["all partitions", status, time(from), time(to), duration(to - from)]);
  const lines = eachBar(data).map((bar) => [unitText(data.units[bar.unit]), ownerText(data, bar), time(bar.begin), time(bar.begin + bar.length), duration(bar.length)]);
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
  const x = data.lag.map((point) => point.sampled_at);
  const most = (values) => Math.max(1, ...values.filter((value) => value !== null)) * 1.05;
  const line = (y, axis, unit, more = {}) => ({ type: "scatter", mode: x.length > 1 ? "lines" : "markers", x, y, yaxis: axis, hoverinfo: "text",
    hovertext: data.lag.map((point, place) => hover([`${time(point.sampled_at)}: ${unit === "s" ? duration(y[place] === null ? null : y[place] * 1000) : `${counted(y[place])} records`}`,
      `${plural(point.lag_partitions, "partition")}, lag unknown of ${counted(point.lag_unknown_partitions)}`])), line: { color: colour("link"), width: 2, shape: "hv" }, ...more });
  const recordsOf = data.lag.map((point) => point.lag);
  const seconds = data.lag.map((point) => point.lag_seconds);
  const bounds = data.lag.map((point) => (point.lag_seconds === null ? point.lag_seconds_lower_bound : null));
  const top = [most(recordsOf), most([...seconds, ...bounds])];
  const traces = [{ ...recordLines(data, 0, top[0]), yaxis: "y" }, { ...recordLines(data, 0, top[1]), yaxis: "y2" },
    line(recordsOf, "y"), line(seconds, "y2", "s"), line(bounds, "y2", "s", { line: { color: colour("link"), width: 2, dash: "dash" }, mode: "lines+markers" })];
  const title = (text) => ({ title: { text, font: { size: 12 }, standoff: 4 } });
  const settings = { yaxis: { domain: [0.55, 1], range: [0, top[0]], ...title("records") }, yaxis2: { domain: [0, 0.45], range: [0, top[1]], ...title("seconds") }, xaxis: { anchor: "y2" } };
  return draw("lag", traces, settings, 300, `Lag in records and in seconds over ${plural(x.length, "sample")}. The table says the same.`);
}

const lagTable = (data) => table("Lag by time", [["Sampled", "time"], ["Records", "number"], ["Time lag", "number"], ["Partitions", "number"], ["Unknown", "number"]],
  data.lag.map((point) => [time(point.sampled_at), counted(point.lag), timeLag(point), counted(point.lag_partitions), counted(point.lag_unknown_partitions)]));
const timeLag = ({ lag_seconds: seconds, lag_seconds_lower_bound: bound }) => (seconds !== null ? duration(seconds * 1000) : bound !== null ? `at least ${duration(bound * 1000)}` : "-");
const lagPartitions = (data) => table("Partitions in the newest sample", [["Partition", ""], ["Lag", "number"], ["Time lag", "number"], ["Status", ""], ["Owner", "text"],
  ["Committed", "number"], ["End", "number"], ["Flags", "text"]], data.lag_partitions.map((row) =>
  [unitText(row), counted(row.lag), timeLag(row), row.status, row.owner, counted(row.committed_offset), counted(row.high_watermark), row.flags]));

// Members, records, incidents

const TENURES_DRAWN = 60;

function drawTenures(data) {
  const drawn = data.members.map((member, index) => [member, index]).slice(-TENURES_DRAWN);
  byId("tenures").hidden = !drawn.length;
  if (!drawn.length) return Promise.resolve();
  const traces = drawn.map(([member, index], place) => {
    const trace = memberTrace(index);
    const begin = Math.max(member.joined_at, data.from);
    const end = Math.max(begin, Math.min(member.left_at ?? data.known_to, data.to));
    addBar(trace, place, begin, end - begin, [`${memberKey(index)} ${memberText(member)}`, tenure(member), leaving(member)], memberKey(index));
    return trace;
  });
  const height = rowsHeight(drawn.length);
  const names = drawn.map(([member, index]) => `${memberKey(index)} ${member.group_instance_id ?? member.client_id ?? "-"}`);
  const more = data.members.length > drawn.length ? ` The newest ${drawn.length} of ${data.members.length} are drawn.` : "";
  return draw("tenures", [recordLines(data, -0.5, drawn.length - 0.5), ...traces], { yaxis: rowAxis(names, height, [drawn.length - 0.5, -0.5]) }, height + 50,
    `Tenures of ${plural(data.members.length, "member")}.${more} The table says the same.`);
}

const tenure = (member) => `${member.is_start_known ? "" : "at the latest "}${time(member.joined_at)} to ${member.left_at === null ? "the end of what is known" : time(member.left_at)}`;
function leaving(member) {
  if (member.left_at === null) return "still a member";
  const cause = member.leave_cause ?? "cause unknown";
  const confidence = member.leave_cause_confidence;
  return `left: ${cause}${confidence === null || confidence === 1 ? "" : ` (confidence ${confidence.toFixed(2)})`}${member.is_end_known ? "" : ", at the latest then"}`;
}

function membersTable(data) {
  return table("Members", [["Member", "text"], ["Client", ""], ["Host", ""], ["Instance", ""], ["From", "time"], ["To", "time"], ["Generations", "number"], ["End", "text"]],
    data.members.map((member, index) => [`${memberKey(index)} ${member.member_id}`, member.client_id, member.client_host, member.group_instance_id,
      time(member.joined_at), member.left_at === null ? "now" : time(member.left_at),
      `${counted(member.from_generation)} to ${member.to_generation === null ? "now" : counted(member.to_generation)}`, leaving(member)]));
}

function recordsTable(data) {
  const pause = (record) => (record.pause_lower_ms === null && record.pause_upper_ms === null ? "-" : `${duration(record.pause_lower_ms)} to ${duration(record.pause_upper_ms)}`);
  const trigger = (record) => (record.trigger ? `${record.trigger} (${record.confidence?.toFixed(2) ?? "server log"})` : "-");
  return table("Rebalances and other records, newest first", [["Time", "time"], ["", ""], ["Generation", "number"], ["What", ""], ["Probable trigger", ""], ["Moved", "number"], ["Pause", "time"], ["Details", "text"]],
    [...data.records].reverse().map((record) => [time(record.at), zoomButton(record.at), counted(record.generation), record.title, trigger(record),
      counted(record.partitions_moved), pause(record), element("ul", {}, ...record.lines.map((line) => element("li", {}, line)))]));
}

function incidentParts(data) {
  if (data.incidents === null) return [element("p", { class: "absent" }, "Not known: the warehouse has no table of incidents.")];
  if (!data.incidents.length) return [element("p", {}, "None in the period.")];
  return data.incidents.map((incident) => {
    const severity = incident.severity in SYMBOLS ? incident.severity : "info";
    const facts = [["Seen", `${time(incident.first_seen_at)} to ${time(incident.last_seen_at)}${incident.is_open ? ", goes on" : ""}`],
      ["Times", counted(incident.occurrences)], ["Evidence", `${incident.evidence}, confidence ${incident.confidence?.toFixed(2) ?? "-"}`],
      ["Member", incident.member_id], ["Partitions", incident.partitions], ["Setting", incident.setting_to_change]];
    return element("div", { class: `incident ${severity}` },
      element("h4", {}, element("span", { class: `severity ${severity}` }, incident.severity ?? "-"), ` ${incident.kind}`),
      element("p", {}, incident.explanation ?? ""), factList(element("dl", { class: "facts" }), facts.filter(([, value]) => value)),
      zoomButton(incident.first_seen_at, incident.last_seen_at));
  });
}

function factList(list, facts) {
  list.replaceChildren(...facts.map(([label, value]) => element("div", {}, element("dt", {}, label), element("dd", {}, element("bdi", {}, value)))));
  return list;
}
