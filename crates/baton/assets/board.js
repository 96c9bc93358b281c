// What can be done with cards: lifted to another stage by hand or by key, and several at once.
"use strict";

const board = () => find("#board");
const stages = () => all(".column").map((column) => column.dataset.stage);

// Why a card cannot go to a column, if it cannot. The server has said it with both, by its own rules.
function refusal(card, column) {
  if (card.dataset.stage === column.dataset.stage) return "";
  return column.dataset.shut || card.dataset.fixed || "";
}

async function moveTo(id, from, to) {
  try {
    await send("POST", `/v1/tasks/${id}/move`, { stage: to });
    toast("Moved", `${id} is in ${to} now. `, false, () => moveTo(id, to, from));
  } catch (error) {
    toast(error.title || "Not moved", error.message, true);
  }
}

// --- by hand ---------------------------------------------------------------------------------

let lifted = null;

function settle() {
  for (const column of all(".column")) column.classList.remove("over", "refuses");
  lifted?.classList.remove("lifted");
}

function over(event) {
  const column = event.target.closest?.(".column");
  if (!lifted || !column) return;
  const why = refusal(lifted, column);
  for (const other of all(".column")) if (other !== column) other.classList.remove("over", "refuses");
  const same = column.dataset.stage === lifted.dataset.stage;
  column.classList.toggle("refuses", Boolean(why));
  column.classList.toggle("over", !why && !same);
  put(column.querySelector(".why"), why ? `${lifted.dataset.task} stays: ${why}` : "");
  if (!why && !same) event.preventDefault();
}

function dropped(event) {
  const column = event.target.closest?.(".column");
  if (!lifted || !column) return;
  event.preventDefault();
  const from = lifted.dataset.stage;
  if (!refusal(lifted, column) && from !== column.dataset.stage) moveTo(lifted.dataset.task, from, column.dataset.stage);
}

// --- by key ----------------------------------------------------------------------------------

function shift(step) {
  const card = find(".card.here");
  const all = stages();
  const to = card && all[all.indexOf(card.dataset.stage) + step];
  if (!to) return;
  const why = refusal(card, find(`#stage-${CSS.escape(to)}`));
  if (why) return toast("It stays", `${card.dataset.task}: ${why}`, true);
  moveTo(card.dataset.task, card.dataset.stage, to);
}

// --- several at once -------------------------------------------------------------------------

const chosen = () => all("[data-row].chosen");

function drawBulk() {
  const bar = find("#bulk");
  if (!bar) return;
  const count = chosen().length;
  bar.hidden = count === 0;
  put(bar.querySelector("b"), `${count} chosen`);
}

// Asks with the count first, then sends one request for all of them.
function askBulk(button) {
  const dialog = find("#bulk-ask");
  const ids = chosen().map((row) => row.dataset.task);
  dialog.dataset.operation = button.dataset.bulk;
  dialog.dataset.ids = ids.join(" ");
  put(dialog.querySelector("h2"), `${button.textContent} ${ids.length} ${ids.length === 1 ? "task" : "tasks"}?`);
  put(dialog.querySelector(".which"), ids.slice(0, 20).join(", ") + (ids.length > 20 ? ", …" : ""));
  put(dialog.querySelector("button.primary"), `${button.textContent} ${ids.length}`);
  const wants = { reason: !["task_edit", "task_move"].includes(button.dataset.bulk), priority: button.dataset.bulk === "task_edit", stage: button.dataset.bulk === "task_move" };
  for (const field of dialog.querySelectorAll("[data-field]")) {
    field.hidden = !wants[field.dataset.field];
    field.querySelector("input, select").disabled = field.hidden;
  }
  dialog.showModal();
}

const AT_ONCE = 50;

async function doBulk(event) {
  event.preventDefault();
  const dialog = find("#bulk-ask");
  const { operation, ids } = dialog.dataset;
  const more = Object.fromEntries(new FormData(event.target));
  const named = operation.startsWith("run_") ? "run" : "task";
  const entries = ids.split(" ").map((id) => ({ operation, arguments: { [named]: id, ...more } }));
  dialog.close();
  let failed = [];
  try {
    for (let at = 0; at < entries.length; at += AT_ONCE) {
      const answer = await send("POST", "/v1/bulk", { entries: entries.slice(at, at + AT_ONCE) });
      failed = failed.concat(answer.items.filter((item) => item.status >= 400));
    }
    const done = entries.length - failed.length;
    toast(failed.length ? `${done} of ${entries.length} done` : `${done} done`, failed[0]?.problem?.detail || "", failed.length > 0);
    if (!failed.length) clearChosen();
  } catch (error) {
    toast(error.title || "Not sent", error.message, true);
  }
}

function clearChosen() {
  for (const row of chosen()) row.classList.remove("chosen");
  drawBulk();
}

function chooseHere() {
  find("[data-row].here")?.classList.toggle("chosen");
  drawBulk();
}

function chooseAll() {
  const list = rows().filter((row) => row.dataset.task);
  const every = list.every((row) => row.classList.contains("chosen"));
  for (const row of list) row.classList.toggle("chosen", !every);
  drawBulk();
}

// --- a phone ---------------------------------------------------------------------------------

// One column fills it: the chips say which, and it opens at the one that needs somebody.
function beginStages() {
  const list = all(".stages a");
  if (!board() || !list.length) return;
  const show = () => {
    const left = board().getBoundingClientRect().left;
    const near = (column) => Math.abs(column.getBoundingClientRect().left - left);
    const here = all(".column").reduce((best, column) => (near(column) < near(best) ? column : best));
    for (const link of all(".stages a")) link.classList.toggle("here", link.dataset.stage === here.dataset.stage);
  };
  const go = (stage, behavior) => {
    const column = document.getElementById(`stage-${stage}`);
    board().scrollTo({ left: column.offsetLeft - board().offsetLeft - 14, behavior });
  };
  board().addEventListener("scroll", show, { passive: true });
  document.addEventListener("drawn", show);
  document.addEventListener("click", (event) => {
    const link = event.target.closest(".stages a");
    if (!link) return;
    event.preventDefault();
    go(link.dataset.stage, matchMedia("(prefers-reduced-motion: reduce)").matches ? "instant" : "smooth");
  });
  const needs = find(".column[data-needs]");
  if (needs && board().scrollWidth > board().clientWidth && !location.hash) go(needs.dataset.stage, "instant");
  show();
}

// ---------------------------------------------------------------------------------------------

Object.assign(KEYS, {
  x: chooseHere,
  X: chooseAll,
  H: () => shift(-1),
  L: () => shift(1),
  Escape: clearChosen,
});

document.addEventListener("dragstart", (event) => {
  lifted = event.target.closest?.(".card[draggable]");
  if (!lifted) return;
  event.dataTransfer.effectAllowed = "move";
  event.dataTransfer.setData("text/plain", lifted.dataset.task);
  lifted.classList.add("lifted");
});
document.addEventListener("dragover", over);
document.addEventListener("drop", dropped);
document.addEventListener("dragend", () => { settle(); lifted = null; });
document.addEventListener("drawn", drawBulk);
document.addEventListener("click", (event) => {
  const bulk = event.target.closest("[data-bulk]");
  if (bulk) askBulk(bulk);
  if (event.target.closest("[data-choose-all]")) chooseAll();
  if (event.target.closest("[data-choose-none]")) clearChosen();
  // With ⌘ or Ctrl, a click on a row chooses it.
  const row = event.target.closest("[data-row]");
  if (row && (event.metaKey || event.ctrlKey) && !event.target.closest("a, button")) {
    row.classList.toggle("chosen");
    drawBulk();
  }
});
find("#bulk-form")?.addEventListener("submit", doBulk);
beginStages();
