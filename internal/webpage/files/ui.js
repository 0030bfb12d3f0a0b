// The page. It gets everything through one stream of events, and asks for
// nothing again and again.

import { Detail } from "./detail.js";
import { Feed } from "./feed.js";
import { Head } from "./head.js";
import { Overview } from "./overview.js";
import { Table, attention, kindOf } from "./table.js";
import { age } from "./times.js";

const $ = (id) => document.getElementById(id);
const meta = (name) => document.querySelector(`meta[name="natsleader-${name}"]`).content;

const program = meta("program");

// The server's time is that of the last message, counted on by this browser's clock.
const clock = { server: Date.now(), local: performance.now(), heard: false };
const now = () => clock.server + performance.now() - clock.local;

const table = new Table(now, (key) => detail.open(table.rows.get(key)),
  (name) => detail.drain(table.by, name, table.led(name)));
const detail = new Detail(now, () => {
  table.select("");
  $("body").focus();
});

const head = new Head(now, (name) => detail.uncordon(name));
const overview = new Overview($("overview"), now, (key) => {
  const row = table.rows.get(key) || [...table.rows.values()].find((r) => r.group === key);
  if (row) table.choose(row.key);
});

// The secret that requests for actions carry comes with the link that the program printed. It is kept with the
// entry of the history, so that the address does not show it and loading the page anew does not lose it.
function takeSecret() {
  const secret = new URLSearchParams(location.hash.slice(1)).get("secret") || history.state?.secret || detail.secret;
  history.replaceState({ secret }, "", location.pathname);
  const readOnly = meta("secret") !== "" && secret === "";
  const actions = readOnly ? [] : meta("actions").split(" ");
  detail.allow(secret, actions);
  table.drains = actions.includes("drain");
  head.uncordons = actions.includes("uncordon");
  head.showCordoned();
  table.reorder();
  $("read-only").hidden = !readOnly;
}
takeSecret();
addEventListener("hashchange", takeSecret); // the link was opened in this page

$("filter").addEventListener("input", (e) => table.setFilter(e.target.value));
$("filter").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" && e.key !== "Escape") return;
  if (e.key === "Escape") table.setFilter(e.target.value = "");
  $("body").focus();
  e.preventDefault();
});
$("by").addEventListener("change", (e) => table.setBy(e.target.value));
const help = () => $("help").showModal();
$("keys").addEventListener("click", help);
document.addEventListener("keydown", (e) => {
  if (e.defaultPrevented || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input, select, textarea, dialog")) return;
  if (e.key === "/") $("filter").focus();
  else if (e.key === "?") help();
  else if (e.key === "j" || e.key === "k") {
    $("body").focus();
    table.key(e);
  } else return;
  e.preventDefault();
});
if (meta("open") === "") $("body").focus();

// silence is how long nothing may come until the page says that it has lost contact. A
// message comes every 2 s at least.
const silence = 6000;
let heard = performance.now();

// narrow is a screen on which an election in detail covers everything else.
const narrow = matchMedia("(max-width: 40rem)").matches;
let open = narrow ? "" : meta("open"); // the election that is shown in detail when the page opens

let gap = 0; // since when, by the server's clock, the page may have missed changes; 0: it has missed none

function take(m) {
  heard = performance.now();
  if (m.dropped) gap ||= clock.server;
  if (m.now) {
    clock.server = m.now;
    clock.local = heard;
    if (!clock.heard) overview.read(); // its lines have times
    clock.heard = true;
    if (!detail.opened) detail.opened = m.now;
  }
  if (table.began !== m.began) {
    table.began = m.began;
    table.reorder();
  }
  if (m.rows && gap) detail.missed(m.rows, m.changes || [], gap);
  if (m.rows) detail.find(m.rows);
  if (m.changes) {
    detail.note(m.changes);
    overview.changed();
  }
  if (m.began && !m.more) gap = 0;
  if (m.rows) {
    table.update(m.rows);
    for (const row of m.rows) {
      detail.update(row);
      if (row.key === open) {
        open = "";
        table.choose(row.key);
      }
    }
    count();
  } else if (m.began) {
    count();
  }
  if (m.head) {
    head.show(m.head);
    table.cordoned = m.head.cordoned || [];
    table.reorder();
  }
  head.fail(m.error || "", m.since);
}

// The tiles count the elections, and each is a button that leaves only its own in the table.
const tiles = ["in-trouble", "led", "idle"];
for (const kind of tiles) {
  $(kind).addEventListener("click", () => {
    table.setKind(table.kind === kind ? "" : kind);
    for (const k of tiles) $(k).setAttribute("aria-pressed", String(k === table.kind));
  });
}

const title = document.title;
let oldest = 0; // since when an election has been in trouble
let waiting = false;

// count fills the tiles, at most once a second. Screen readers speak the sum.
function count() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    const counts = { "in-trouble": 0, led: 0, idle: 0 };
    let groups = 0, pending = 0;
    oldest = 0;
    for (const r of table.rows.values()) {
      const kind = kindOf(r);
      counts[kind]++;
      if (r.group) groups++;
      if (r.trouble === attention.pending) pending++;
      if (kind === "in-trouble" && r.since && (oldest === 0 || r.since < oldest)) oldest = r.since;
    }
    const number = (n, what) => n === 1 ? `1 ${what}` : `${n} ${what}s`;
    const text = [number(table.rows.size - groups, "election"), groups ? number(groups, "group") : "",
      ...tiles.map((kind) => `${counts[kind]} ${kind.replace("-", " ")}`)].filter(Boolean).join(", ");
    if ($("summary").textContent !== text) $("summary").textContent = text;
    for (const kind of tiles) $(kind).firstElementChild.textContent = String(counts[kind]);
    $("led").lastElementChild.textContent = pending ? `${pending} of them pending` : "";
    $("in-trouble").classList.toggle("bad", counts["in-trouble"] > 0);
    document.title = (counts["in-trouble"] ? `(${counts["in-trouble"]}) ` : "") + title;
    showAges();
  }, $("summary").textContent === "" ? 0 : 1000);
}

// showAges shows how old what is wrong is.
function showAges() {
  const upTo = Number($("in-trouble").firstElementChild.textContent) > 1 ? "up to " : "";
  $("in-trouble").lastElementChild.textContent = oldest ? `for ${upTo}${age(now() - oldest)}` : "";
}
setInterval(showAges, 1000);

const lost = (text) => head.fail(text, head.since || (clock.heard ? clock.server + heard - clock.local : 0));

setInterval(() => {
  if (performance.now() - heard <= silence) return;
  lost(clock.heard ? `this page has lost contact with ${program}` :
    `${program} does not answer. If other pages of it are open in this browser, close some: a browser opens six connections to one host at most`);
}, 1000);

// It is open while the page is hidden, too, so that the time lines have no gap.
new Feed("api/elections", take, () => {
  gap ||= clock.server;
  lost(`this page has lost contact with ${program}, and tries again`);
}, true);
