// The slider chooses the instant of the form; [ and ] go to the previous and the next rebalance; a picture that is wider
// than the screen is moved to the instant; a link says that there is something new.
"use strict";
const slider = document.getElementById("slider");
if (slider) {
  const since = Date.parse(slider.dataset.since), until = Date.parse(slider.dataset.until), form = slider.form;
  const choose = () => { form.elements.at.value = new Date(since + (until - since) * slider.value / 1000).toISOString(); };
  slider.addEventListener("input", choose);
  slider.addEventListener("change", () => { choose(); form.submit(); });
}
document.addEventListener("keydown", (event) => {
  if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey) return;
  const link = { "[": "before", "]": "after" }[event.key];
  if (link) document.getElementById(link)?.click();
});
const picture = document.querySelector(".picture"), at = picture?.querySelector("line.at");
if (at) picture.scrollLeft += at.getBoundingClientRect().left - picture.getBoundingClientRect().right * 0.6;
const fresh = document.getElementById("new");
if (fresh) {
  const events = new EventSource(fresh.dataset.events);
  for (const kind of ["round", "incident"]) events.addEventListener(kind, () => { fresh.hidden = false; events.close(); });
}
