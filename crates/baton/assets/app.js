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
    const answer = await send(method, path, body, intents.get(path));
    form.reset();
    intents.delete(path);
    form.closest("details")?.removeAttribute("open");
    form.closest("dialog")?.close();
    toast(form.dataset.done || "Done", answer.id ? `${answer.id} ${answer.title || ""}` : "");
  } catch (error) {
    // What was refused is asked anew next time; what may have happened is asked again.
    if (error.title) intents.delete(path);
    toast(error.title || "Not sent", error.message, true);
  } finally {
    sending.delete(path);
    buttons.forEach((button) => { button.disabled = false; });
  }
}

// Says something for a while; `undo` takes it back, as long as it is said.
function toast(title, text, bad = false, undo = null) {
  const box = document.createElement("div");
  box.className = bad ? "toast bad" : "toast";
  const head = document.createElement("b");
  head.textContent = title;
  box.append(head, text);
  if (undo) {
    const back = document.createElement("button");
    back.textContent = "Undo";
    back.addEventListener("click", () => { box.remove(); undo(); });
    box.append(document.createElement("br"), back);
  }
  find("#toasts").append(box);
  setTimeout(() => box.remove(), bad ? 12000 : undo ? 10000 : 5000);
}

// --- staying up to date ----------------------------------------------------------------------

let source = null;
let held = false;

function say(text, state) {
  const line = find("#live");
  if (!line) return;
  put(line, text);
  line.dataset.state = state;
}

function listen() {
  const line = find("#live");
  if (!line || source || held || document.hidden) return;
  source = new EventSource(line.dataset.url);
  source.addEventListener("open", () => say("Live", "live"));
  source.addEventListener("morph", (event) => { JSON.parse(event.data).forEach(morph); say("Live", "live"); });
  source.addEventListener("over", () => location.replace("/sign-in"));
  source.addEventListener("error", failed);
}

// A browser tries again by itself after a cut, but not after a refusal.
async function failed() {
  say("Offline: trying again", "offline");
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
  // Not `ignoreActiveValue`: it leaves out all that is below what has the focus, and a click gives that to `main`.
  Idiomorph.morph(old, fresh, { callbacks: { beforeNodeMorphed: keep } });
  tick();
  document.dispatchEvent(new Event("drawn"));
}

// What somebody is writing, and what somebody has opened, stays as it is.
function keep(old, fresh) {
  if (old.dataset && "own" in old.dataset && old.dataset.run === fresh.dataset?.run) return false;
  if (old.id === "follow") return false;
  if (old.tagName === "DETAILS" && old.open) fresh.setAttribute("open", "");
  // What somebody has marked or chosen is not the server's to say.
  for (const own of ["here", "chosen", "lifted", "over", "refuses"]) {
    if (old.classList?.contains(own)) fresh.classList.add(own);
  }
  const field = ["TEXTAREA", "INPUT", "SELECT"].includes(old.tagName);
  if (field && (old.value || old === document.activeElement) && old.id !== "filter") return false;
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
    const parts = { hour: "2-digit", minute: "2-digit", hour12: false };
    if (!("short" in element.dataset)) parts.second = "2-digit";
    put(element, new Date(Number(element.dataset.clock)).toLocaleTimeString([], parts));
  }
  const waiting = find("#inbox-count:not([hidden])")?.firstChild.textContent.trim();
  const title = document.title.replace(/^\(\d+\) /, "");
  const named = waiting ? `(${waiting}) ${title}` : title;
  if (document.title !== named) document.title = named;
  for (const ring of all("[data-lease]")) {
    const left = Math.max(0, ring.dataset.lease - now);
    const share = Math.min(100, (100 * left) / ring.dataset.length);
    ring.setAttribute("stroke-dashoffset", String(Math.round(100 - share)));
    ring.classList.toggle("low", share < 15);
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
  if (held) { stopListening(); say("Held: press p to go on", "held"); } else { listen(); }
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
  // What is open has the keys for itself.
  if (event.metaKey || event.ctrlKey || event.altKey || find("dialog[open]")) return;
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
  t: changeTheme,
  c: () => find("#new")?.click(),
  Enter: () => { const url = find(".here") && urlOf(find(".here")); if (url) location.assign(url); },
};

async function copy(text) {
  await navigator.clipboard.writeText(text);
  toast("Copied", text);
}

// --- the palette -----------------------------------------------------------------------------

function commands() {
  const pages = all("[data-go]").map((link) => ["", link.querySelector("span").textContent, link.href, `g ${link.dataset.go}`]);
  const tasks = rows().map((row) => {
    const name = row.querySelector(".title, strong")?.textContent || "";
    return [row.dataset.task || "", name, urlOf(row), ""];
  });
  const acts = [["", "Light or dark", changeTheme, "t"], ["", "Hold live updates", hold, "p"],
    ["", "All keys", () => find("#keys").showModal(), "?"], ["", "Copy the link", () => copy(location.href), "y"]];
  if (find("#new")) acts.unshift(["", "New task", () => find("#new").click(), "c"]);
  return [...pages, ...acts, ...tasks];
}

let offered = [];

function openPalette() {
  find("#palette").showModal();
  find("#palette-words").value = "";
  drawPalette();
}

function drawPalette() {
  const words = find("#palette-words").value.trim();
  const fits = ([id, name]) => `${id} ${name}`.toLowerCase().includes(words.toLowerCase());
  offered = commands().filter(fits).slice(0, 12);
  if (/^[tT]-?\d+$/.test(words)) {
    const id = `T-${words.replace(/\D/g, "")}`;
    offered.unshift([id, "Open it", `/tasks/${id}`, ""]);
  }
  if (words) offered.push(["", `Filter: ${words}`, `/runs?q=${encodeURIComponent(words)}`, ""]);
  find("#palette-list").replaceChildren(...offered.map(([id, name, , hint], index) => {
    const line = document.createElement("li");
    line.role = "option";
    line.id = `offer-${index}`;
    const part = (text, kind) => {
      const span = document.createElement("span");
      span.className = kind;
      span.textContent = text;
      return span;
    };
    line.append(...(id ? [part(id, "id")] : []), part(name, ""), part(hint, "quiet"));
    return line;
  }));
  choose(0);
}

function choose(index) {
  [...find("#palette-list").children].forEach((line, at) => line.setAttribute("aria-selected", String(at === index)));
  find("#palette-words").setAttribute("aria-activedescendant", `offer-${index}`);
  find(`#offer-${index}`)?.scrollIntoView({ block: "nearest" });
}

function take(index) {
  const aim = offered[index]?.[2];
  find("#palette").close();
  if (typeof aim === "function") aim(); else if (aim) location.assign(aim);
}

function paletteKey(event) {
  const list = [...find("#palette-list").children];
  const at = list.findIndex((line) => line.getAttribute("aria-selected") === "true");
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step && list.length) {
    event.preventDefault();
    choose((at + step + list.length) % list.length);
  } else if (event.key === "Enter" && list[at]) {
    event.preventDefault();
    take(at);
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
  if (option) take([...option.parentNode.children].indexOf(option));
  if (event.target.closest("#new")) find("#adding")?.showModal();
  if (event.target.tagName === "DIALOG" || event.target.closest("[data-close]")) event.target.closest("dialog").close();
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
