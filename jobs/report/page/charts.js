// What the page's charts have in common: their layout, the fills that tell members apart, bars and rows.

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

const statusTrace = (status) => status === UNOWNED
  ? barTrace(pattern("", colour("error"), 1.5)) : barTrace(pattern(status === RESERVED ? "." : "/", colour("hatch"), status === RESERVED ? 1.5 : 0));

function recordLines(data, top, bottom) {
  const at = data.records.flatMap((record) => [record.at, record.at, null]);
  const y = data.records.flatMap(() => [top, bottom, null]);
  return { type: "scatter", mode: "lines", x: at, y, hoverinfo: "skip", line: { color: colour("line"), width: 1, dash: "dot" } };
}

async function draw(id, traces, settings, height, summary) {
  const place = byId(id);
  place.setAttribute("aria-label", summary);
  await Plotly.react(place, traces, layout(height, settings), CONFIG);
}
