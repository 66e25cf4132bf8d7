// What a page does beside links and forms: it copies a verdict, goes by keys, and says that there is something new.
"use strict";
const page = (() => {
  const main = () => document.getElementById("main");

  const copied = async (text) => {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Without TLS a browser has no clipboard for pages, but copies what is selected.
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  };
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("button.copy");
    if (!button) return;
    await copied(`${button.dataset.text} ${new URL(button.dataset.link, location.href)}`);
    const before = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = before; }, 2000);
  });

  // j and k go through what has a place of its own: rows of lists, and episodes.
  const step = (by) => {
    const rows = [...main().querySelectorAll("[data-row]")].filter((each) => each.checkVisibility());
    const now = rows.findIndex((each) => each.contains(document.activeElement));
    const next = rows[Math.min(Math.max(now + by, 0), rows.length - 1)];
    (next?.querySelector("a, summary, button:not([hidden])") ?? next)?.focus();
    next?.scrollIntoView({ block: "nearest" });
  };
  const DOES = {
    "/": () => document.getElementById("search")?.focus(),
    "j": () => step(1),
    "k": () => step(-1),
    "[": () => document.getElementById("before")?.click(),
    "]": () => document.getElementById("after")?.click(),
    "?": () => document.getElementById("keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select, textarea") || event.ctrlKey || event.metaKey || event.altKey) return;
    const does = DOES[event.key];
    if (does && !document.querySelector("dialog[open]")) { event.preventDefault(); does(); }
  });
  const help = document.getElementById("help");
  if (help) { help.hidden = false; help.addEventListener("click", DOES["?"]); }

  // A table that is wider than a narrow screen scrolls, and keys have to reach it.
  const reach = () => {
    for (const each of document.querySelectorAll("table")) {
      if (each.scrollWidth > each.clientWidth) each.tabIndex = 0;
      else each.removeAttribute("tabindex");
    }
  };
  addEventListener("resize", reach);
  document.addEventListener("toggle", reach, true);

  const wire = (root) => {
    reach();
    for (const each of root.querySelectorAll("button.copy")) each.hidden = false;
    columns(root);
    brush(root);
    const slider = root.querySelector("#slider");
    if (slider) {
      const since = Date.parse(slider.dataset.since), until = Date.parse(slider.dataset.until), form = slider.form;
      const choose = () => { form.elements.at.value = new Date(since + (until - since) * slider.value / 1000).toISOString(); };
      slider.addEventListener("input", choose);
      slider.addEventListener("change", () => { choose(); form.submit(); });
    }
  };

  // Which columns the list of groups has is kept in the browser.
  const COLUMNS = { "Members": false, "State": false, "Type": false, "Time lag": true, "Last commit": true, "Team": true };
  const KEY = "groupledger.columns";
  const chosen = () => { try { return { ...COLUMNS, ...JSON.parse(localStorage.getItem(KEY)) }; } catch { return COLUMNS; } };
  const columns = (root) => {
    const table = root.querySelector(".groups"), place = root.querySelector("#columns");
    if (!table || !place) return;
    const now = chosen();
    const show = (name, isShown) => table.classList.toggle(`${COLUMNS[name] ? "hide" : "show"}-${name.toLowerCase().replace(" ", "-")}`, isShown !== COLUMNS[name]);
    place.replaceChildren("Columns: ", ...Object.keys(COLUMNS).map((name) => {
      const label = document.createElement("label"), box = document.createElement("input");
      box.type = "checkbox";
      box.checked = now[name];
      box.addEventListener("change", () => {
        show(name, box.checked);
        try { localStorage.setItem(KEY, JSON.stringify({ ...chosen(), [name]: box.checked })); } catch { /* as it was */ }
      });
      show(name, now[name]);
      label.append(box, ` ${name} `);
      return label;
    }));
    place.hidden = false;
  };

  // Dragging over a picture of time selects a part of it; a click on a bar of the histogram selects that bar's time.
  const brush = (root) => {
    for (const line of root.querySelectorAll(".timeline[data-since]")) {
      const since = Date.parse(line.dataset.since), until = Date.parse(line.dataset.until);
      let from, mark;
      const share = (event) => {
        const box = line.getBoundingClientRect();
        return Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1);
      };
      line.addEventListener("pointerdown", (event) => { if (event.button === 0 && event.pointerType !== "touch") { from = share(event); line.setPointerCapture(event.pointerId); event.preventDefault(); } });
      line.addEventListener("pointermove", (event) => {
        if (from === undefined) return;
        mark ??= line.appendChild(Object.assign(document.createElement("div"), { className: "brush" }));
        const to = share(event);
        mark.style.left = `${100 * Math.min(from, to)}%`;
        mark.style.width = `${100 * Math.abs(to - from)}%`;
      });
      line.addEventListener("pointerup", (event) => {
        const to = share(event), first = from;
        from = undefined;
        mark?.remove();
        mark = undefined;
        if (first === undefined) return;
        if (Math.abs(to - first) > 0.01) return select(since + (until - since) * Math.min(first, to), since + (until - since) * Math.max(first, to));
        const bar = document.elementsFromPoint(event.clientX, event.clientY).find((each) => each.dataset?.since && each !== line);
        if (bar) select(Date.parse(bar.dataset.since), Date.parse(bar.dataset.until));
      });
    }
  };
  const to = (since, until) => {
    const address = new URL(location.href);
    address.searchParams.set("window", `${Math.max(Math.round((until - since) / 1000), 1)}s`);
    address.searchParams.set("until", new Date(until).toISOString());
    address.searchParams.delete("page");
    const at = Date.parse(address.searchParams.get("at"));
    if (!(since <= at && at <= until)) address.searchParams.delete("at");
    return address;
  };
  const select = (since, until) => location.assign(to(since, until));
  // Zooming stays on the page: only the last of many steps is asked for.
  let zooms;
  document.addEventListener("window", (event) => {
    clearTimeout(zooms);
    zooms = setTimeout(() => { history.replaceState(null, "", to(...event.detail)); follow(); }, 150);
  });

  // A page of now has data-live. It follows the monitor: what it shows is asked for again, and put in place.
  const PLACES = "a, button, summary, figure.picture";
  const follow = async () => {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    const fresh = answer.ok && new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("main");
    if (!fresh || main().contains(document.activeElement) && document.activeElement.matches("input, select")) return;
    const open = [...main().querySelectorAll("details")].map((each) => each.open), top = scrollY;
    const place = [...main().querySelectorAll(PLACES)].indexOf(document.activeElement);
    main().replaceChildren(...fresh.childNodes);
    main().querySelectorAll("details").forEach((each, number) => { if (number < open.length) each.open = open[number]; });
    if (place >= 0) main().querySelectorAll(PLACES)[place]?.focus({ preventScroll: true });
    times.show(main());
    pictures.wire(main());
    wire(main());
    scrollTo(0, top);
  };
  // Who only passes by takes no place among those that listen; nor does a page that nobody sees.
  const WAIT_MS = 1000;
  let events, waits;
  const listen = () => {
    clearTimeout(waits);
    events?.close();
    if (document.hidden || !document.body.dataset.events || !main().querySelector("[data-live]")) return;
    waits = setTimeout(() => {
      events = new EventSource(document.body.dataset.events);
      let soon;
      for (const kind of ["round", "incident"]) events.addEventListener(kind, () => { clearTimeout(soon); soon = setTimeout(follow, 300); });
    }, WAIT_MS);
  };
  document.addEventListener("visibilitychange", () => { if (!document.hidden && events) follow(); listen(); });
  listen();
  wire(main());
  return { follow, wire };
})();
