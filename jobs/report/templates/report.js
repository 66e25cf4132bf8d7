// The list shows the first groups that have what is searched for; the page of a group is unpacked when its link is taken.
const STEP = 100, byId = (id) => document.getElementById(id);
const rows = [...document.querySelector("#list tbody").rows].filter((row) => row.querySelector("a"));
let most = STEP;
const list = () => {
  const wanted = byId("search").value.toLowerCase();
  let count = 0;
  for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted) || ++count > most;
  byId("found").textContent = `${count.toLocaleString("en")} of ${rows.length.toLocaleString("en")} groups`;
  byId("more").hidden = count <= most;
};
byId("search").addEventListener("input", () => { most = STEP; list(); });
byId("more").addEventListener("click", () => { most += STEP; list(); });
list();
const unpacked = (text) => {
  const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
};
const show = async () => {
  const wanted = location.hash.slice(1), block = wanted && byId(wanted), group = byId("group");
  const text = block ? await unpacked(block.textContent) : "";
  if (location.hash.slice(1) !== wanted) return;
  group.innerHTML = text;
  times.show(group);
  pictures.wire(group);
  group.hidden = !block;
  byId("overview").hidden = !!block;
  group.dataset.shown = wanted;
  if (!block) return;
  const title = group.querySelector("h1");
  title.tabIndex = -1;
  title.focus();
  scrollTo(0, 0);
};
addEventListener("hashchange", show);
show();
