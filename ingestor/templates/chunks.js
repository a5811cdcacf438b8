"use strict";
// A column is one strategy: its pane of chunks, and its figures, whose coordinates are units of the text.
const columns = [...document.querySelectorAll(".strategy")].map((section) => ({
  section,
  pane: section.querySelector(".text"),
  matrix: section.querySelector(".matrix"),
  curve: section.querySelector(".curve"),
  share: Number(section.dataset.neighbours),
  chunks: [...section.querySelectorAll("li")].map((item, index) => ({
    item, index, spans: pairs(item.dataset.spans), units: pairs(item.dataset.units),
  })),
}));
const place = new Map(columns.flatMap((column) => column.chunks.map((chunk) => [chunk.item, { column, chunk }])));
const together = document.getElementById("together");
let chosen = null; // the item that is highlighted
let leader = null; // the column that was touched last: the others scroll with it

function pairs(text) {
  return text ? text.split(" ").map((pair) => pair.split("-").map(Number)) : [];
}
const begin = (chunk) => chunk.spans[0][0];
const end = (chunk) => chunk.spans[chunk.spans.length - 1][1];
const meet = (one, other) => one.some(([a, b]) => other.some(([c, d]) => a < d && c < b));

// --- one chunk, everywhere ---

function choose(item) {
  if (item === chosen) return;
  chosen = item;
  for (const old of document.querySelectorAll(".on, .same, .near, .next")) old.classList.remove("on", "same", "near", "next");
  for (const column of columns) draw(column, []);
  if (!item) return;
  const { column, chunk } = place.get(item);
  item.classList.add("on");
  draw(column, [chunk]);
  if (column.share) showNeighbours(column, chunk.index);
  for (const other of columns) {
    if (other === column) continue;
    const same = other.chunks.filter((candidate) => meet(candidate.spans, chunk.spans));
    for (const candidate of same) candidate.item.classList.add("same");
    draw(other, same);
  }
}

function draw(column, chunks) {
  if (!column.matrix) return;
  const squares = chunks.flatMap(({ units }) => units.flatMap(([a, b]) => units.map(([c, d]) => `M${a} ${c}H${b}V${d}H${a}z`)));
  const bands = chunks.flatMap(({ units }) => units.map(([a, b]) => `M${a} 0H${b}V100H${a}z`));
  column.matrix.querySelector(".mark").setAttribute("d", squares.slice(0, 5000).join(""));
  column.curve.querySelector(".mark").setAttribute("d", bands.join(""));
}

function showNeighbours(column, index) {
  for (const [step, name, share] of [[1, "near", column.share], [2, "next", column.share / 2]]) {
    for (const chunk of [column.chunks[index - step], column.chunks[index + step]]) {
      if (!chunk) continue;
      chunk.item.classList.add(name);
      chunk.item.dataset.share = `+ ${share.toFixed(2)} of this vector`;
    }
  }
}

// --- figures lead to chunks ---

function under(event, figure, column) {
  const box = figure.getBoundingClientRect();
  const unit = ((event.clientX - box.left) / box.width) * figure.viewBox.baseVal.width;
  return column.chunks.find((chunk) => chunk.units.some(([a, b]) => a <= unit && unit < b));
}

for (const column of columns) {
  for (const figure of [column.matrix, column.curve]) {
    if (!figure) continue;
    figure.addEventListener("pointermove", (event) => {
      const chunk = under(event, figure, column);
      if (chunk) choose(chunk.item);
    });
    figure.addEventListener("click", (event) => {
      const chunk = under(event, figure, column);
      leader = column;
      if (chunk) show(column, chunk, 0);
    });
  }
  column.pane.addEventListener("pointerover", (event) => {
    const item = event.target.closest("li");
    if (item) choose(item);
  });
  column.pane.addEventListener("focusin", (event) => {
    const item = event.target.closest("li");
    if (item) choose(item);
  });
  for (const touch of ["pointerenter", "pointerdown", "wheel", "touchstart", "focusin"]) {
    column.pane.addEventListener(touch, () => { leader = column; }, { passive: true });
  }
  column.pane.addEventListener("scroll", () => { if (column === leader && together.checked) follow(column); }, { passive: true });
  column.pane.addEventListener("keydown", (event) => move(event, column));
}

for (const button of document.querySelectorAll(".larger")) {
  button.addEventListener("click", () => {
    const large = button.closest(".figures").classList.toggle("large");
    button.setAttribute("aria-pressed", String(large));
  });
}

// --- scrolling together: every pane has the same place of the text at its top ---

function follow(column) {
  const top = column.pane.scrollTop;
  const chunk = column.chunks[last(column.chunks, (candidate) => candidate.item.offsetTop <= top)];
  if (!chunk) return;
  const within = Math.min(1, Math.max(0, (top - chunk.item.offsetTop) / chunk.item.offsetHeight));
  const at = begin(chunk) + within * (end(chunk) - begin(chunk));
  for (const other of columns) {
    if (other === column) continue;
    const match = at_place(other, at);
    if (match) show(other, match, (at - begin(match)) / (end(match) - begin(match)));
  }
}

function show(column, chunk, within) {
  const { offsetTop, offsetHeight } = chunk.item;
  column.pane.scrollTop = offsetTop + Math.min(1, Math.max(0, within)) * offsetHeight;
}

const at_place = (column, at) => column.chunks[Math.max(0, last(column.chunks, (chunk) => begin(chunk) <= at))];

function last(list, holds) { // the index of the last one that holds, where those that hold come first; or -1
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(list[middle])) low = middle + 1; else high = middle;
  }
  return low - 1;
}

// --- keys: one chunk is in the tab order, arrows go from there ---

function move(event, column) {
  const item = event.target.closest("li");
  const from = item ? place.get(item).chunk : null;
  const target = {
    ArrowDown: () => ({ column, chunk: column.chunks[from ? from.index + 1 : 0] }),
    ArrowUp: () => ({ column, chunk: from && column.chunks[from.index - 1] }),
    ArrowRight: () => beside(column, 1, from),
    ArrowLeft: () => beside(column, -1, from),
  }[event.key]?.();
  if (!target?.chunk || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  leader = target.column;
  for (const other of target.column.chunks) other.item.tabIndex = -1;
  target.chunk.item.tabIndex = 0;
  target.chunk.item.focus();
}

function beside(column, step, from) {
  const other = columns[columns.indexOf(column) + step];
  return other && from ? { column: other, chunk: at_place(other, begin(from)) } : null;
}
