// The page. It gets everything through one stream of events, and asks for
// nothing again and again.

import { addressOf, viewOf } from "./address.js";
import { Detail } from "./detail.js";
import { $ } from "./dom.js";
import { Feed } from "./feed.js";
import { Head } from "./head.js";
import { Overview } from "./overview.js";
import { Table, attention, kindOf } from "./table.js";
import { age } from "./times.js";

const meta = (name) => document.querySelector(`meta[name="natsleader-${name}"]`).content;

const program = meta("program");

// The server's time is that of the last message, counted on by this browser's clock.
const clock = { server: Date.now(), local: performance.now(), heard: false };
const now = () => clock.server + performance.now() - clock.local;

// The view that is shown, and the one without a fragment. narrow is a screen on which an election in detail covers
// everything else.
const narrow = matchMedia("(max-width: 40rem)").matches;
const start = { election: narrow ? "" : meta("open"), group: "", by: "", show: "", filter: "", past: "hour" };
let view = start;

const table = new Table(now, (row) => goTo(row), (name, does) => detail.drain(table.by, name, does));
const detail = new Detail(now, () => go({ election: "", group: "" }), (past) => go({ past }));
const head = new Head(now, (name) => detail.uncordon(name));
const overview = new Overview($("overview"), now, (key) => {
  const row = table.rows.get(key) || [...table.rows.values()].find((r) => r.group === key);
  if (row) goTo(row);
}, (past) => go({ past }));

// go shows another view, whose address follows the one before, or takes its place.
function go(change, instead = false) {
  const next = { ...view, ...change };
  const address = addressOf(next, start);
  if (address !== addressOf(view, start)) history[instead ? "replaceState" : "pushState"]({ secret: detail.secret }, "", address);
  show(next);
}

const goTo = (row) => go(row.group ? { election: "", group: row.group } : { election: row.key, group: "" });

// tiles count the elections, and each is a button that leaves only its own in the table.
const tiles = ["in-trouble", "led", "idle"];

function show(next) {
  view = next;
  $("by").value = view.by;
  table.setBy(view.by);
  if ($("filter").value !== view.filter) $("filter").value = view.filter; // and leaves the cursor where it is
  table.setFilter(view.filter);
  table.setKind(view.show);
  for (const kind of tiles) $(kind).setAttribute("aria-pressed", String(kind === view.show));
  overview.choose(view.past);
  detail.past.choose(view.past);
  const row = table.wanted(view);
  if (!row) detail.close();
  else if (row.key !== detail.key) {
    table.select(row.key);
    detail.open(row);
  }
}

// arrive shows the view of the address, when the page is opened, with the Back key, and when the user has changed the address.
// The secret that requests for actions carry comes with the link that the program printed. It is kept with the
// entry of the history, so that the address does not show it and loading the page anew does not lose it.
function arrive() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const secret = parts.get("secret") || history.state?.secret || detail.secret;
  parts.delete("secret");
  const next = viewOf(parts, start);
  history.replaceState({ secret }, "", addressOf(next, start));
  const readOnly = meta("secret") !== "" && secret === "";
  const actions = readOnly ? [] : meta("actions").split(" ");
  detail.allow(secret, actions);
  table.drains = actions.includes("drain");
  head.uncordons = actions.includes("uncordon");
  head.showCordoned();
  $("read-only").hidden = !readOnly;
  show(next);
}
arrive();
addEventListener("popstate", arrive);

const filter = (text) => go({ filter: text }, true);
$("filter").addEventListener("input", (e) => filter(e.target.value));
$("filter").addEventListener("keydown", (e) => {
  if (e.key !== "Enter" && e.key !== "Escape") return;
  if (e.key === "Escape") filter("");
  $("body").focus();
  e.preventDefault();
});
$("by").addEventListener("change", (e) => go({ by: e.target.value }));
for (const kind of tiles) $(kind).addEventListener("click", () => go({ show: view.show === kind ? "" : kind }));
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
if (start.election === "") $("body").focus();

// silence is how long nothing may come until the page says that it has lost contact. A
// message comes every 2 s at least.
const silence = 6000;
let heard = performance.now();

let arrived; // the keys of all rows since the stream was opened, until they are complete

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
  if (m.first) arrived = new Set();
  const gone = (m.rows || []).filter((row) => row.gone).map((row) => row.key);
  if (m.rows) m.rows = m.rows.filter((row) => !row.gone);
  for (const row of m.rows || []) arrived?.add(row.key);
  if (arrived && m.began && !m.more) { // what was there before may be gone
    gone.push(...[...table.rows.keys()].filter((key) => !arrived.has(key)));
    arrived = undefined;
  }
  if (gone.length > 0) table.remove(gone);
  if (m.rows && gap) detail.missed(m.rows, m.changes || [], gap);
  if (m.rows) detail.find(m.rows);
  if (m.changes) {
    detail.note(m.changes);
    overview.changed();
  }
  if (m.began && !m.more) gap = 0;
  if (m.rows) {
    table.update(m.rows);
    for (const row of m.rows) detail.update(row);
    if (detail.key === "" && table.wanted(view)) show(view); // its row has come
    count();
  } else if (m.began) {
    count();
  }
  if (m.head) {
    head.show(m.head);
    table.cordoned = m.head.cordoned || [];
    table.reorder();
  }
  if (m.began && !m.more && !table.wanted(view) && !["", start.election].includes(view.group || view.election)) go(start, true); // there is none
  fail(m.error || "", m.since);
}

const title = document.title;
let oldest = 0; // since when an election has been in trouble
let inDoubt = 0; // elections of which it is not known whether they are in trouble
let waiting = false;

// count fills the tiles, at most once a second. Screen readers speak the sum.
function count() {
  if (waiting) return;
  waiting = true;
  setTimeout(() => {
    waiting = false;
    const counts = { "in-trouble": 0, led: 0, idle: 0 };
    let groups = 0, pending = 0, unknown = 0;
    oldest = 0;
    for (const r of table.rows.values()) {
      const kind = kindOf(r);
      counts[kind]++;
      if (r.group) groups++;
      if (r.trouble === attention.pending) pending++;
      if (r.trouble === attention.unknown) unknown++;
      if (kind === "in-trouble" && r.since && (oldest === 0 || r.since < oldest)) oldest = r.since;
    }
    const number = (n, what) => n === 1 ? `1 ${what}` : `${n} ${what}s`;
    const text = [number(table.rows.size - groups, "election"), groups ? number(groups, "group") : "",
      ...tiles.map((kind) => `${counts[kind]} ${kind.replace("-", " ")}`)].filter(Boolean).join(", ");
    if ($("summary").textContent !== text) $("summary").textContent = text;
    for (const kind of tiles) $(kind).firstElementChild.textContent = String(counts[kind]);
    $("led").lastElementChild.textContent = pending ? `${pending} of them pending` : "";
    inDoubt = unknown;
    $("in-trouble").classList.toggle("bad", counts["in-trouble"] > 0);
    document.title = (counts["in-trouble"] ? `(${counts["in-trouble"]}) ` : "") + title;
    showAges();
  }, $("summary").textContent === "" ? 0 : 1000);
}

// showAges shows how old what is wrong is.
function showAges() {
  const upTo = Number($("in-trouble").firstElementChild.textContent) > 1 ? "up to " : "";
  $("in-trouble").lastElementChild.textContent = [oldest ? `for ${upTo}${age(now() - oldest)}` : "", inDoubt ? `${inDoubt} of them unknown` : ""].filter(Boolean).join(", ");
}
setInterval(showAges, 1000);

// fail shows why what is shown is not up to date, and since when; an empty text: it is.
function fail(text, since) {
  head.fail(text, since);
  overview.fail(text && since || 0);
}

const lost = (text) => fail(text, head.since || (clock.heard ? clock.server + heard - clock.local : 0));

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
