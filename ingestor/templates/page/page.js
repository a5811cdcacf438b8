// Keeps the overview as it stands now, and puts "/" to use. Without this script the page is complete; loading it again refreshes it.
"use strict";

const state = document.getElementById("live-state");
const live = new Map([...document.querySelectorAll("[data-live]")].map((part) => [part.id, part]));

// HTML of our own server, in which every value is escaped; the page's policy lets no script in it run.
function replace(part, html) {
  if (part.contains(document.activeElement)) return false; // the focus must not be lost
  const places = [...part.querySelectorAll(".scroll")].map((box) => box.scrollLeft);
  part.innerHTML = html;
  part.querySelectorAll(".scroll").forEach((box, at) => { box.scrollLeft = places[at] ?? 0; });
  return true;
}

function follow() {
  const pending = new Map();
  const source = new EventSource("/page/events");
  source.onopen = () => { state.textContent = "live"; state.className = "on"; };
  source.onmessage = (event) => {
    for (const [id, html] of Object.entries(JSON.parse(event.data))) if (live.has(id)) pending.set(id, html);
    for (const [id, html] of pending) if (replace(live.get(id), html)) pending.delete(id);
  };
  source.onerror = () => { state.textContent = source.readyState === 2 ? "not live: load again" : "connecting"; state.className = ""; };
  addEventListener("pagehide", () => source.close());
}

if (live.size) follow();

// "/" moves to the search field of the page, or opens the search.
addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, [contenteditable]");
  if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  const field = document.querySelector("input[type=search]");
  if (field) { field.focus(); field.select(); } else location.href = "/page/search";
});
