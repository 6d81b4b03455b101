// Live pages, keys and the theme. Every page works without it; with it, nothing has to be loaded anew.
"use strict";

const root = document.documentElement;
const kept = (name) => { try { return localStorage.getItem(name); } catch { return null; } };
const keep = (name, value) => { try { localStorage.setItem(name, value); } catch { /* then it is asked for again */ } };
if (kept("theme")) root.dataset.theme = kept("theme");

// --- a page becomes the next one: what did not change stays, with its focus, its scroll and what was unfolded ---------

const HELD = new Set(["TEXTAREA", "INPUT", "AUDIO"]);

function morph(from, to) {
  for (const { name, value } of [...to.attributes]) {
    if (!(from.tagName === "DETAILS" && name === "open") && from.getAttribute(name) !== value) from.setAttribute(name, value);
  }
  for (const { name } of [...from.attributes]) {
    if (!to.hasAttribute(name) && !(from.tagName === "DETAILS" && name === "open")) from.removeAttribute(name);
  }
  if (!HELD.has(from.tagName)) morphChildren(from, to);
}

function alike(a, b) {
  return a.nodeType === b.nodeType && a.nodeName === b.nodeName && (a.id || "") === (b.id || "");
}

function morphChildren(from, to) {
  const named = new Map([...from.children].filter((child) => child.id).map((child) => [child.id, child]));
  let old = from.firstChild;
  for (const next of [...to.childNodes]) {
    const same = next.id ? named.get(next.id) : null;
    if (same && same !== old && same.nodeName === next.nodeName) from.insertBefore(same, old);
    const at = same && same.nodeName === next.nodeName ? same : old;
    if (at && alike(at, next)) {
      if (at === old) old = old.nextSibling;
      if (at.nodeType === Node.ELEMENT_NODE) morph(at, next);
      else if (at.data !== next.data) at.data = next.data;
    } else {
      from.insertBefore(next, old);
    }
  }
  while (old) {
    const gone = old;
    old = old.nextSibling;
    gone.remove();
  }
}

// --- live -----------------------------------------------------------------------------------------------------------

let source = null;

function live(main) {
  if (source || document.hidden) return;
  source = new EventSource(main.dataset.live);
  source.addEventListener("page", (event) => {
    const next = new DOMParser().parseFromString(event.data, "text/html");
    // Nobody's typing or selection is disturbed.
    if (document.getSelection().toString() && main.contains(document.getSelection().anchorNode)) return;
    morphChildren(main, next.body);
    main.dataset.updates = Number(main.dataset.updates || 0) + 1;
  });
  source.addEventListener("signed-out", () => location.reload());
}

function rest() {
  if (source) source.close();
  source = null;
}

function setUpLive() {
  const main = document.getElementById("content");
  const pause = document.getElementById("pause");
  if (!pause || !main.dataset.live) return;
  let paused = kept("paused") === "yes";
  const show = () => {
    pause.hidden = false;
    pause.textContent = paused ? "Paused" : "Live";
    pause.setAttribute("aria-pressed", String(paused));
    pause.title = paused ? "Live updates are off; press to go on" : "This page updates itself; press to pause";
    if (paused) rest(); else live(main);
  };
  pause.addEventListener("click", () => { paused = !paused; keep("paused", paused ? "yes" : "no"); show(); });
  document.addEventListener("visibilitychange", () => { if (document.hidden) rest(); else if (!paused) live(main); });
  addEventListener("pagehide", rest);
  addEventListener("pageshow", () => { if (!paused) live(main); });
  show();
}

// --- keys -----------------------------------------------------------------------------------------------------------

const rows = () => [...document.querySelectorAll("main .row-link")];

function step(by) {
  const all = rows();
  if (!all.length) return;
  const here = all.indexOf(document.activeElement);
  all[Math.max(0, Math.min(all.length - 1, here < 0 ? 0 : here + by))].focus();
}

const KEYS = {
  "/": () => document.getElementById("search")?.select(),
  "?": () => document.getElementById("help")?.showModal(),
  "j": () => step(1),
  "k": () => step(-1),
  "r": () => location.reload(),
  "p": () => document.getElementById("pause")?.click(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select, dialog[open]");
  if (typing || event.ctrlKey || event.metaKey || event.altKey || kept("keys") === "off") return;
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});

function setUpHelp() {
  const help = document.getElementById("help");
  if (!help) return;
  document.getElementById("help-button").addEventListener("click", () => help.showModal());
  const button = document.createElement("button");
  button.type = "button";
  const show = () => { button.textContent = kept("keys") === "off" ? "Turn single keys on" : "Turn single keys off"; };
  button.addEventListener("click", () => { keep("keys", kept("keys") === "off" ? "on" : "off"); show(); });
  show();
  help.querySelector("form").append(button);
}

// --- theme, forms ---------------------------------------------------------------------------------------------------

function setUpTheme() {
  document.getElementById("theme")?.addEventListener("click", () => {
    const dark = getComputedStyle(root).colorScheme === "dark"
      || (getComputedStyle(root).colorScheme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
    root.dataset.theme = dark ? "light" : "dark";
    keep("theme", root.dataset.theme);
  });
}

document.addEventListener("submit", (event) => {
  if (event.target.method === "dialog") return;
  // A second click must not send a form twice.
  for (const button of event.target.querySelectorAll("button")) setTimeout(() => { button.disabled = true; });
});
addEventListener("pageshow", () => document.querySelectorAll("button[disabled]").forEach((b) => { b.disabled = false; }));

addEventListener("DOMContentLoaded", () => { setUpLive(); setUpTheme(); setUpHelp(); });
