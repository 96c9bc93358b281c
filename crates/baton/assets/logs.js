// A log that grows: lines are asked for and added in blocks that cost nothing while they are out of sight.
"use strict";

const LINES_AT_ONCE = 500;
const BLOCK = 200;
const EVERY = 1000;

function addLines(log, lines) {
  let block = log.lastElementChild;
  for (const { at, voice, text } of lines) {
    if (block.childElementCount >= BLOCK) {
      block = document.createElement("div");
      block.className = "block";
      log.append(block);
    }
    const line = document.createElement("div");
    line.className = voice;
    const time = document.createElement("time");
    time.textContent = new Date(at).toLocaleTimeString([], { hour12: false });
    const said = document.createElement("span");
    said.textContent = text;
    line.append(time, said);
    block.append(line);
  }
}

// Adds what came since, and says whether there is more; whoever reads at the end stays there, whoever scrolled up is left alone.
async function moreOf(log) {
  const address = `/v1/runs/${log.dataset.run}/logs?after=${log.dataset.last}&limit=${LINES_AT_ONCE}`;
  const response = await fetch(address, { headers: { authorization: `Bearer ${key()}` } });
  if (!response.ok) return false;
  const { items, last } = await response.json();
  if (items.length) {
    addLines(log, items);
    log.dataset.last = last;
    find("#log-none")?.remove();
    if (find("#follow").checked) log.scrollTop = log.scrollHeight;
  }
  return items.length === LINES_AT_ONCE;
}

async function followLog(log) {
  // From the beginning: what the page was drawn with are the last lines, for those without a script.
  if (Number(log.dataset.first) > 1) {
    log.replaceChildren(Object.assign(document.createElement("div"), { className: "block" }));
    log.dataset.last = "0";
  }
  let caughtUp = false;
  for (;;) {
    if ((!caughtUp || find("#follow").checked) && !document.hidden && log.isConnected) {
      caughtUp = !(await moreOf(log).catch(() => false));
      if (!caughtUp) continue;
    }
    await new Promise((done) => { setTimeout(done, EVERY); });
  }
}

if (find("#log")) {
  const log = find("#log");
  let before = 0;
  log.addEventListener("scroll", () => {
    if (log.scrollTop < before - 4) find("#follow").checked = false;
    before = log.scrollTop;
  }, { passive: true });
  log.scrollTop = log.scrollHeight;
  followLog(log);
}
