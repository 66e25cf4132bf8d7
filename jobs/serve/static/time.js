// Instants for people: in the zone of the browser or in UTC, by choice, and ages that go on.
"use strict";
const times = (() => {
  const KEY = "groupledger.zone";
  const kept = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const keep = (zone) => { try { localStorage.setItem(KEY, zone); } catch { /* private windows keep nothing */ } };
  const local = Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";
  let zone = kept() === "UTC" ? "UTC" : local;
  const parts = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone, hourCycle: "h23", ...options });
  const FORMS = {
    second: () => parts({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    minute: () => parts({ hour: "2-digit", minute: "2-digit" }),
    clock: () => parts({ hour: "2-digit", minute: "2-digit", second: "2-digit" }),
    dated: () => parts({ day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }),
    day: () => parts({ day: "numeric", month: "short" }),
  };
  let shapes = {};
  const shown = (iso, form = "second") => (shapes[form] ??= FORMS[form]()).format(new Date(iso)).replace(",", "");
  const full = (iso) => `${new Date(iso).toISOString()}, ${parts({ dateStyle: "full", timeStyle: "long" }).format(new Date(iso))}`;

  // As jobs.process.instants.lasted: the two largest units.
  const lasted = (ms) => {
    const seconds = Math.max(Math.trunc(ms / 1000), 0), minutes = Math.trunc(seconds / 60), hours = Math.trunc(minutes / 60);
    const units = [[Math.trunc(hours / 24), "d"], [hours % 24, "h"], [minutes % 60, "min"], [seconds % 60, "s"]];
    const first = units.findIndex(([count]) => count);
    return first < 0 ? "0 s" : units.slice(first, first + 2).filter(([count]) => count).map((each) => each.join(" ")).join(" ");
  };
  const ages = (root) => {
    for (const each of root.querySelectorAll(".age[data-since]")) each.textContent = `(${lasted(Date.now() - Date.parse(each.dataset.since))} ago)`;
  };
  const show = (root = document) => {
    for (const each of root.querySelectorAll("time[datetime]")) {
      each.textContent = shown(each.dateTime, each.dataset.form);
      each.title = full(each.dateTime);
    }
    for (const each of root.querySelectorAll("text[data-at]")) each.textContent = shown(each.dataset.at, each.dataset.form);
    ages(root);
    // What is wider than the screen is scrolled by keys, too.
    for (const each of root.querySelectorAll("table")) if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
  };
  const switched = document.getElementById("zones"), label = document.getElementById("zone");
  const say = () => {
    if (label) label.textContent = `Times in ${zone}`;
    if (switched) { switched.hidden = local === "UTC"; switched.textContent = zone === "UTC" ? `show ${local}` : "show UTC"; }
  };
  switched?.addEventListener("click", () => { zone = zone === "UTC" ? local : "UTC"; keep(zone); shapes = {}; say(); show(); });
  say();
  show();
  setInterval(() => ages(document), 1000);
  return { show, shown, full, lasted };
})();
