// What a page needs a script for: to stay up to date, to send what somebody decided, and keys.
"use strict";

// Everything that becomes HTML here was drawn by the server, which escapes every text.
const policy = window.trustedTypes
  ? trustedTypes.createPolicy("baton", { createHTML: (html) => html })
  : { createHTML: (html) => html };

const find = (selector) => document.querySelector(selector);
const all = (selector) => [...document.querySelectorAll(selector)];

// --- the key that this browser acts with ----------------------------------------------------
// Cookies go to every port of a machine, so the one that shows pages can only read. What acts
// stays in storage, which other ports cannot see.

const KEY = "baton-key";
const key = () => localStorage.getItem(KEY);

async function signIn(secret, to = "/") {
  const response = await fetch("/sign-in", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ secret }),
  });
  const body = await response.json();
  if (!response.ok) throw new Error(body.detail || "That did not work.");
  localStorage.setItem(KEY, body.key);
  location.replace(to);
}

function beginSignIn() {
  const form = find("#sign-in");
  if (!form) return false;
  const tell = (error) => { find("#sign-in-trouble").textContent = error.message; };
  const [ticket, task] = location.hash.slice(1).split(":");
  if (/^[0-9a-f]{64}$/.test(ticket)) {
    // Whoever looks at the history of this browser finds no ticket in it.
    history.replaceState(null, "", "/sign-in");
    signIn(ticket, /^T-\d+$/.test(task) ? `/tasks/${task}` : "/").catch(tell);
  }
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    signIn(find("#secret").value.trim()).catch(tell);
  });
  return true;
}

async function signOut() {
  await send("POST", "/v1/keys/self/revoke", { reason: "signed out" }).catch(() => {});
  localStorage.removeItem(KEY);
  await fetch("/sign-out", { method: "POST", headers: { "content-type": "application/json" }, body: "{}" });
  location.replace("/sign-in");
}

// --- doing -----------------------------------------------------------------------------------

async function send(method, path, body, requestKey = crypto.randomUUID()) {
  const response = await fetch(path, {
    method,
    headers: {
      "content-type": "application/json",
      "idempotency-key": requestKey,
      authorization: `Bearer ${key()}`,
      "baton-client": "web",
    },
    body: JSON.stringify(body),
  });
  const answer = await response.json().catch(() => ({}));
  if (response.status === 401) {
    location.replace("/sign-in");
    throw new Error("Sign in again.");
  }
  if (!response.ok) {
    const error = new Error(answer.detail || response.statusText);
    error.title = answer.title;
    throw error;
  }
  return answer;
}

// What is being asked, by its path: under which key, and whether it is on its way.
const intents = new Map();
const sending = new Set();

async function act(form) {
  const body = {};
  for (const [name, value] of new FormData(form)) if (value !== "") body[name] = value;
  const buttons = form.querySelectorAll("button");
  // One key for one intent: a second press, or one after a cut, is the same request, whatever was redrawn.
  const { method, path } = form.dataset;
  if (sending.has(path)) return;
  intents.set(path, intents.get(path) || crypto.randomUUID());
  sending.add(path);
  buttons.forEach((button) => { button.disabled = true; });
  try {
    await send(method, path, body, intents.get(path));
    form.reset();
    intents.delete(path);
    form.closest("details")?.removeAttribute("open");
    toast("Done", path.split("/").slice(3).join(" "));
  } catch (error) {
    // What was refused is asked anew next time; what may have happened is asked again.
    if (error.title) intents.delete(path);
    toast(error.title || "Not sent", error.message, true);
  } finally {
    sending.delete(path);
    buttons.forEach((button) => { button.disabled = false; });
  }
}

function toast(title, text, bad = false) {
  const box = document.createElement("div");
  box.className = bad ? "toast bad" : "toast";
  const head = document.createElement("b");
  head.textContent = title;
  box.append(head, text);
  find("#toasts").append(box);
  setTimeout(() => box.remove(), bad ? 12000 : 5000);
}

// --- staying up to date ----------------------------------------------------------------------

let source = null;
let held = false;

function say(text) {
  const line = find("#live");
  if (line && line.textContent !== text) line.textContent = text;
}

function listen() {
  const line = find("#live");
  if (!line || source || held || document.hidden) return;
  source = new EventSource(line.dataset.url);
  source.addEventListener("open", () => say("Live"));
  source.addEventListener("morph", (event) => { JSON.parse(event.data).forEach(morph); say("Live"); });
  source.addEventListener("over", () => location.replace("/sign-in"));
  source.addEventListener("error", failed);
}

// A browser tries again by itself after a cut, but not after a refusal.
async function failed() {
  say("Offline: trying again");
  if (source?.readyState !== EventSource.CLOSED) return;
  stopListening();
  const answer = await fetch(location.href, { redirect: "manual" }).catch(() => null);
  if (answer?.type === "opaqueredirect") return location.replace("/sign-in");
  setTimeout(listen, 5000);
}

function stopListening() {
  source?.close();
  source = null;
}

function morph({ id, html }) {
  const old = document.getElementById(id);
  if (!old) return;
  const parsed = new DOMParser().parseFromString(policy.createHTML(`<table><tbody></tbody></table>${html}`), "text/html");
  let fresh = parsed.getElementById(id);
  if (!fresh && html.startsWith("<tr")) {
    fresh = new DOMParser()
      .parseFromString(policy.createHTML(`<table><tbody>${html}</tbody></table>`), "text/html")
      .getElementById(id);
  }
  if (!fresh) return;
  const here = find(".here")?.id;
  Idiomorph.morph(old, fresh, { ignoreActiveValue: true, callbacks: { beforeNodeMorphed: keep } });
  if (here) document.getElementById(here)?.classList.add("here");
  tick();
}

// What somebody is writing, and what somebody has opened, stays as it is.
function keep(old, fresh) {
  if (old.tagName === "DETAILS" && old.open) fresh.setAttribute("open", "");
  if (["TEXTAREA", "INPUT"].includes(old.tagName) && old.value && old.id !== "filter") return false;
  return true;
}

// --- time that passes ------------------------------------------------------------------------

function short(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

function tick() {
  const now = Date.now();
  for (const element of all("[data-since]")) put(element, short(now - element.dataset.since));
  for (const element of all("[data-until]")) put(element, short(element.dataset.until - now));
  for (const element of all("[data-clock]")) {
    put(element, new Date(Number(element.dataset.clock)).toLocaleTimeString([], { hour12: false }));
  }
  for (const ring of all("[data-lease]")) {
    const left = Math.max(0, ring.dataset.lease - now);
    const share = Math.min(100, left / 3000);
    ring.style.strokeDashoffset = String(100 - share);
    ring.classList.toggle("low", left < 30000);
  }
}

// --- keys ------------------------------------------------------------------------------------

const rows = () => all("[data-row]");
const urlOf = (row) => row.getAttribute("href") || row.querySelector("a")?.getAttribute("href");

function go(step) {
  const list = rows();
  if (!list.length) return;
  const at = list.findIndex((row) => row.classList.contains("here"));
  const next = list[Math.min(list.length - 1, Math.max(0, at + step))];
  list[at]?.classList.remove("here");
  next.classList.add("here");
  next.scrollIntoView({ block: "nearest", inline: "nearest" });
}

function goSideways(step) {
  const columns = all(".column");
  const at = columns.findIndex((column) => column.querySelector(".here"));
  for (let next = at + step; next >= 0 && next < columns.length; next += step) {
    const row = columns[next].querySelector("[data-row]");
    if (!row) continue;
    find(".here")?.classList.remove("here");
    row.classList.add("here");
    row.scrollIntoView({ block: "nearest", inline: "nearest" });
    return;
  }
}

function hold() {
  held = !held;
  if (held) { stopListening(); say("Held: press p to go on"); } else { listen(); }
}

let chord = false;

function pressed(event) {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName);
  if ((event.metaKey || event.ctrlKey) && event.key === "k") {
    event.preventDefault();
    return openPalette();
  }
  if ((event.metaKey || event.ctrlKey) && event.key === "Enter") return event.target.form?.requestSubmit();
  if (typing) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (chord) {
    chord = false;
    const link = find(`[data-go="${CSS.escape(event.key)}"]`);
    if (link) location.assign(link.href);
    return;
  }
  const meant = KEYS[event.key];
  if (!meant) return;
  // Enter is for whatever has the focus; only where nothing has it, it opens the row that is marked.
  if (event.key === "Enter" && (!find(".here") || event.target.closest("a, button, summary, dialog"))) return;
  event.preventDefault();
  meant();
}

const KEYS = {
  g: () => { chord = true; setTimeout(() => { chord = false; }, 1500); },
  j: () => go(1),
  k: () => go(-1),
  l: () => goSideways(1),
  h: () => goSideways(-1),
  a: () => find("[data-answer]")?.focus(),
  p: hold,
  y: () => copy(location.href),
  "/": () => find("#filter")?.focus(),
  "?": () => find("#keys")?.showModal(),
  Enter: () => { const url = find(".here") && urlOf(find(".here")); if (url) location.assign(url); },
};

async function copy(text) {
  await navigator.clipboard.writeText(text);
  toast("Copied", text);
}

// --- the palette -----------------------------------------------------------------------------

function commands() {
  const pages = all("[data-go]").map((link) => [link.textContent.trim(), link.href, `g ${link.dataset.go}`]);
  const tasks = rows().map((row) => [row.innerText.split("\n").slice(0, 3).join(" "), urlOf(row), ""]);
  return [...pages, ...tasks];
}

function openPalette() {
  find("#palette").showModal();
  find("#palette-words").value = "";
  drawPalette();
}

function drawPalette() {
  const words = find("#palette-words").value.trim();
  const list = find("#palette-list");
  const found = commands().filter(([name]) => name.toLowerCase().includes(words.toLowerCase())).slice(0, 12);
  if (/^[tT]-?\d+$/.test(words)) found.unshift([`Open ${words}`, `/tasks/T-${words.replace(/\D/g, "")}`, ""]);
  if (words) found.push([`Filter: ${words}`, `/runs?q=${encodeURIComponent(words)}`, ""]);
  list.replaceChildren(...found.map(([name, url, hint], index) => {
    const line = document.createElement("li");
    line.role = "option";
    line.dataset.url = url;
    line.setAttribute("aria-selected", String(index === 0));
    const keys = document.createElement("span");
    keys.className = "quiet";
    keys.textContent = hint;
    line.append(name, keys);
    return line;
  }));
}

function paletteKey(event) {
  const list = [...find("#palette-list").children];
  const at = list.findIndex((line) => line.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && list.length) {
    event.preventDefault();
    list[at]?.setAttribute("aria-selected", "false");
    list[(at + step + list.length) % list.length].setAttribute("aria-selected", "true");
  } else if (event.key === "Enter" && list[at]) {
    event.preventDefault();
    location.assign(list[at].dataset.url);
  }
}

// --- the beginning ---------------------------------------------------------------------------

function changeTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (document.documentElement.dataset.theme === "system" && matchMedia("(prefers-color-scheme: dark)").matches);
  const word = dark ? "light" : "dark";
  document.documentElement.dataset.theme = word;
  document.cookie = `baton-theme=${word}; path=/; max-age=31536000; samesite=lax`;
}

function clicked(event) {
  const copied = event.target.closest("[data-copy]");
  if (copied) copy(copied.dataset.copy);
  const option = event.target.closest("#palette-list li");
  if (option) location.assign(option.dataset.url);
  if (event.target.tagName === "DIALOG") event.target.close();
}

document.addEventListener("click", clicked);

if (!beginSignIn()) {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches(".act")) return;
    event.preventDefault();
    act(event.target);
  });
  document.addEventListener("keydown", pressed);
  document.addEventListener("visibilitychange", () => (document.hidden ? stopListening() : listen()));
  find("#theme")?.addEventListener("click", changeTheme);
  find("#sign-out")?.addEventListener("click", signOut);
  find("#palette-words")?.addEventListener("input", drawPalette);
  find("#palette-words")?.addEventListener("keydown", paletteKey);
  tick();
  setInterval(tick, 1000);
  listen();
}
