// The table of elections. Only the rows that can be seen are in the document, so ten
// thousand elections cost no more than thirty.

import { owned } from "./group.js";
import { age } from "./times.js";

const rowHeight = 32; // as in ui.css

// lineHeight is that of a line of the advice in a row in trouble, in px, and below is what is below the last.
const lineHeight = 20.3;
const below = 4;

const ruler = document.createElement("canvas").getContext("2d");

// attention names the values of the field trouble, the most urgent first.
export const attention = { unknown: 0, foreign: 1, expired: 2, deleted: 3, pending: 4, none: 5, idle: 6 };

// kindOf returns the tile that counts a row: "in-trouble", "led" or "idle".
export function kindOf(row) {
  if (row.trouble < attention.pending) return "in-trouble";
  return row.trouble === attention.idle ? "idle" : "led";
}

const byText = (field) => (a, b) => (a[field] || "").localeCompare(b[field] || "");
const byNumber = (field) => (a, b) => (a[field] || 0) - (b[field] || 0);
const columns = [
  { name: "Election", kind: "election", compare: byText("key") },
  { name: "State", kind: "state", compare: byNumber("trouble") },
  { name: "Leader", kind: "leader", compare: byText("id") },
  { name: "For", kind: "since", compare: (a, b) => (b.since || 0) - (a.since || 0) },
  { name: "Token", kind: "token", compare: (a, b) => (a.token || "").length - (b.token || "").length || byText("token")(a, b) },
  { name: "Lease left", kind: "lease", compare: byNumber("expires") },
  { name: "Publishes", kind: "value", compare: byText("value") },
];

// stillness is set where the settings of the system ask for less motion.
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

// wordOf has the word for what is wrong with a group that has an assigner.
const wordOf = { shards_unowned: "unowned", shards_not_begun: "not begun", work_late: "late work", programs_differ: "mixed", group_empty: "empty" };

// stateOf returns the word for the state of a row, which does not depend on colours.
export function stateOf(row) {
  if (row.trouble === attention.unknown) return "unknown";
  if (row.group && row.state === "leading") return wordOf[row.code] || "group";
  return row.state;
}

// classOf returns the class of that word.
export const classOf = (row) => kindOf(row) === "in-trouble" ? "wrong-state" : stateOf(row);

export class Table {
  // now returns the server's time in ms. open is called with a row, and drain with the name of a section and what it does.
  constructor(now, open, drain) {
    this.now = now;
    this.open = open;
    this.drain = drain;
    this.drains = false; // the page may ask for it
    this.by = "";        // "leader" or "host": the rows stand in sections
    this.cordoned = [];  // names of leaders and hosts
    this.closed = new Set(); // the names of sections whose rows are not shown
    this.rows = new Map(); // by key
    this.order = [];       // the rows that pass the filter, sorted, and the heads of sections
    this.filter = "";
    this.kind = ""; // of the rows that are shown; empty: all
    this.sorted = { column: columns[1], down: false };
    this.selected = "";
    this.body = document.getElementById("body");
    this.place = document.getElementById("rows");
    this.shown = new Map(); // the elements of the rows that can be seen, by key
    this.spare = { rows: [], heads: [] };
    this.makeHead();
    this.body.addEventListener("scroll", () => this.later());
    this.body.addEventListener("keydown", (e) => this.key(e));
    new ResizeObserver(() => this.later()).observe(this.body);
    setInterval(() => this.tick(), 1000);
  }

  makeHead() {
    const head = document.getElementById("columns");
    for (const c of columns) {
      const cell = document.createElement("div");
      cell.setAttribute("role", "columnheader");
      cell.className = c.kind;
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = c.name;
      button.addEventListener("click", () => {
        this.sorted = { column: c, down: this.sorted.column === c && !this.sorted.down };
        this.markSorted();
        this.reorder();
      });
      cell.append(button);
      c.cell = cell;
      head.append(cell);
    }
    this.markSorted();
  }

  markSorted() {
    for (const c of columns) {
      c.cell.setAttribute("aria-sort", c !== this.sorted.column ? "none" : this.sorted.down ? "descending" : "ascending");
    }
  }

  // update takes rows that are new or have changed.
  update(rows) {
    let moved = false;
    for (const row of rows) {
      const old = this.rows.get(row.key);
      this.rows.set(row.key, row);
      moved ||= !old || this.filter !== "" || old.state !== row.state || old.trouble !== row.trouble || old.id !== row.id || old.why !== row.why || old.do !== row.do ||
        this.sorted.column.compare(old, row) !== 0 || this.by !== "" && JSON.stringify(old.sharing) !== JSON.stringify(row.sharing);
      const el = this.shown.get(row.key);
      if (el) this.fill(el, row);
    }
    // A renewal moves no row, unless the table is sorted by what it changes.
    if (moved) this.reorder();
  }

  // remove takes away the rows of elections that are not there any more.
  remove(keys) {
    for (const key of keys) this.rows.delete(key);
    this.reorder();
  }

  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.reorder();
  }

  setKind(kind) {
    this.kind = kind;
    this.reorder();
  }

  setBy(by) {
    if (this.by === by) return;
    this.by = by;
    this.closed.clear();
    this.reorder();
  }

  // sectionOf returns the name of the section of a row: its leader or host, and "" if nobody leads.
  sectionOf(row) {
    if (!held(row)) return "";
    return this.by === "host" && row.host || row.id;
  }

  // does says what a leader or host does: what it leads, also what the filter leaves out, and what its members of groups own.
  does(name, shares) {
    const its = [...this.rows.values()].filter((row) => this.sectionOf(row) === name);
    const groups = its.filter((row) => row.group).map((row) => row.group);
    const n = its.length - groups.length;
    return [`leads ${n === 0 ? "nothing" : n === 1 ? "1 election" : `${n} elections`}`, groups.length > 0 ? `assigns ${groups.join(", ")}` : "",
      ...shares || []].filter(Boolean).join(", ");
  }

  // shares returns by leader or host what its members of groups own.
  shares() {
    const all = new Map();
    for (const { group, sharing } of this.rows.values()) {
      for (const [name, its] of Map.groupBy(sharing?.members || [], (m) => this.by === "host" && m.host || m.id)) {
        const n = its.reduce((sum, m) => sum + owned(m), 0);
        const states = [...new Set(its.map((m) => m.state))].filter((state) => state !== "lives");
        all.set(name, [...all.get(name) || [], `owns ${n} of ${sharing.shards} shards of ${group}${states.length > 0 ? ` (${states.join(", ")})` : ""}`]);
      }
    }
    return all;
  }

  // arranged puts rows below the heads of their sections.
  arranged(rows) {
    if (this.by === "") return rows;
    const sections = Map.groupBy(rows, (row) => this.sectionOf(row));
    const shares = this.shares();
    for (const name of shares.keys()) {
      if (!sections.has(name) && this.kind === "" && name.toLowerCase().includes(this.filter)) sections.set(name, []);
    }
    return [...sections].sort(([a], [b]) => natural.compare(a, b)).flatMap(([name, its]) => {
      const cordoned = name !== "" && this.cordoned.some((one) => one === name || one === its[0]?.host);
      const head = { key: `\0${name}`, section: name, does: this.does(name, shares.get(name)) + (cordoned ? ", cordoned" : "") }; // no election has such a key
      return this.closed.has(name) ? [head] : [head, ...its];
    });
  }

  passes(row) {
    if (this.kind !== "" && kindOf(row) !== this.kind) return false;
    if (this.filter === "") return true;
    return [row.key, row.id || "", stateOf(row), row.value || ""].some((s) => s.toLowerCase().includes(this.filter));
  }

  // reorder sorts the rows at most once per frame.
  reorder() {
    this.stale = true;
    this.later();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    if (this.stale) {
      this.stale = false;
      const sign = this.sorted.down ? -1 : 1;
      const compare = this.sorted.column.compare;
      this.order = this.arranged([...this.rows.values()].filter((r) => this.passes(r))
        .sort((a, b) => sign * compare(a, b) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0)));
      this.width = 0;
      document.getElementById("table").setAttribute("aria-rowcount", String(this.order.length + 1));
      const none = document.getElementById("none");
      none.hidden = this.order.length > 0 || this.rows.size === 0;
      none.textContent = this.filter === "" ? `No election is ${this.kind.replace("-", " ")}.` : "No election passes the filter.";
      document.getElementById("empty").hidden = this.rows.size > 0 || !this.began;
    }
    this.measure();
    const first = Math.max(0, this.indexAt(this.body.scrollTop) - 4);
    const last = Math.min(this.order.length, this.indexAt(this.body.scrollTop + this.body.clientHeight) + 5);
    const wanted = new Set();
    for (let i = first; i < last; i++) wanted.add(this.order[i].key);
    for (const [key, el] of this.shown) {
      if (!wanted.has(key)) {
        this.shown.delete(key);
        el.remove();
        el.ends = undefined;
        (el.cells ? this.spare.rows : this.spare.heads).push(el);
      }
    }
    let before = null;
    for (let i = first; i < last; i++) {
      const row = this.order[i];
      const isHead = row.section !== undefined;
      let el = this.shown.get(row.key);
      if (!el) {
        el = isHead ? this.spare.heads.pop() || this.makeSection() : this.spare.rows.pop() || this.make();
        this.shown.set(row.key, el);
        if (!isHead) this.fill(el, row);
      }
      if (isHead) this.fillSection(el, row);
      el.style.transform = `translateY(${this.tops[i]}px)`;
      el.style.height = `${this.tops[i + 1] - this.tops[i]}px`;
      el.setAttribute("aria-rowindex", String(i + 2));
      // The order in the document is that on the screen, for screen readers.
      const next = before ? before.nextSibling : this.place.firstChild;
      if (next !== el) this.place.insertBefore(el, next);
      before = el;
    }
  }

  // measure finds where each row is.
  measure() {
    const width = this.body.clientWidth;
    if (width === this.width) return;
    this.width = width;
    const style = getComputedStyle(this.body);
    ruler.font = style.font;
    const stacked = style.getPropertyValue("--stacked") === "1"; // what a section's leader does is below its name
    const padding = parseFloat(getComputedStyle(columns[0].cell.firstChild).paddingLeft);
    const inner = Math.max(lineHeight, width - 2 * padding); // a table that is hidden has no width, and linesOf needs some
    const widths = new Map(); // of words
    this.tops = [0];
    for (const row of this.order) {
      const advised = row.why ? linesOf(`${adviceOf(row)}Runbook`, inner, widths) * lineHeight + below :
        row.section === undefined ? 0 : stacked ? linesOf(row.does, inner, widths) * lineHeight + below : (linesOf(row.does, inner / 2, widths) - 1) * lineHeight;
      this.tops.push(this.tops.at(-1) + rowHeight + Math.ceil(advised));
    }
    document.getElementById("spacer").style.height = `${this.tops.at(-1)}px`;
  }

  // indexAt returns the index of the row at a height, as far as there are rows.
  indexAt(y) {
    let low = 0, high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.tops[middle + 1] <= y) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  make() {
    const el = document.createElement("div");
    el.setAttribute("role", "row");
    el.cells = {};
    for (const c of columns) {
      const cell = document.createElement("div");
      cell.setAttribute("role", "cell");
      cell.className = c.kind;
      el.cells[c.kind] = cell;
      el.append(cell);
    }
    el.cells.token.classList.add("number");
    el.track = document.createElement("div");
    el.track.className = "track";
    el.bar = document.createElement("div");
    el.bar.className = "bar";
    el.track.append(el.bar);
    el.left = document.createElement("span");
    el.left.className = "left number";
    el.cells.lease.append(el.track, el.left);
    el.addEventListener("click", () => this.choose(el.key));
    return el;
  }

  // makeSection makes the head of a section, which opens and closes it.
  makeSection() {
    const el = document.createElement("div");
    el.setAttribute("role", "row");
    const cell = document.createElement("div");
    cell.setAttribute("role", "cell");
    cell.setAttribute("aria-colspan", String(columns.length));
    el.toggle = document.createElement("button");
    el.does = document.createElement("span");
    el.drain = document.createElement("button");
    el.toggle.type = el.drain.type = "button";
    el.toggle.className = "toggle";
    el.drain.textContent = "Drain…";
    el.toggle.addEventListener("click", () => this.choose(el.key));
    el.drain.addEventListener("click", () => this.drain(el.toggle.textContent, el.does.textContent));
    cell.append(el.toggle, el.does, el.drain);
    el.append(cell);
    return el;
  }

  fillSection(el, head) {
    el.key = head.key;
    el.className = "section" + (head.key === this.selected ? " selected" : "");
    set(el.toggle, head.section || "nobody");
    el.toggle.setAttribute("aria-expanded", String(!this.closed.has(head.section)));
    set(el.does, head.does);
    el.drain.hidden = !this.drains || head.section === "";
  }

  fill(el, row) {
    const st = stateOf(row);
    el.key = row.key;
    el.className = "row" + (row.trouble === attention.idle ? " idle" : "") + (row.key === this.selected ? " selected" : "");
    set(el.cells.election, row.group || row.key);
    set(el.cells.state, st);
    el.cells.state.className = `state ${classOf(row)}`;
    const leads = held(row);
    set(el.cells.leader, leads ? row.id : row.id ? `nobody (was ${row.id})` : "nobody");
    set(el.cells.token, leads && row.token || "");
    el.classList.toggle("wrong", Boolean(row.why));
    const says = row.why && adviceOf(row);
    if (!says) set(el.cells.value, row.value || "");
    else if (el.says !== says) {
      el.cells.value.replaceChildren(...advice(row));
      el.cells.value.title = row.why;
    }
    el.says = says;
    this.fillTimes(el, row);
    el.track.style.visibility = row.expires ? "" : "hidden";
    if (el.ends !== row.expires || el.lease !== row.lease) {
      el.ends = row.expires;
      el.lease = row.lease;
      this.animate(el, row);
    }
  }

  // animate lets the bar run out by itself, so nothing is drawn again until a renewal.
  animate(el, row) {
    el.running?.cancel();
    el.running = undefined;
    if (!row.expires) return;
    const left = Math.max(0, row.expires - this.now());
    const from = `scaleX(${Math.min(1, left / row.lease)})`;
    el.bar.style.transform = "scaleX(0)";
    if (stillness.matches) { // set once a second, see fillTimes
      el.bar.style.transform = from;
      return;
    }
    el.running = el.bar.animate([{ transform: from }, { transform: "scaleX(0)" }], { duration: left, easing: "linear" });
  }

  fillTimes(el, row) {
    set(el.cells.since, row.since ? age(this.now() - row.since) : "");
    if (stillness.matches && row.expires) el.bar.style.transform = `scaleX(${Math.min(1, Math.max(0, row.expires - this.now()) / row.lease)})`;
    const left = Math.max(0, row.expires - this.now());
    set(el.left, row.expires ? left < 60000 ? `${(left / 1000).toFixed(1)}s` : age(left) : "");
  }

  tick() {
    if (document.hidden) return;
    for (const [key, el] of this.shown) {
      if (el.cells) this.fillTimes(el, this.rows.get(key));
    }
  }

  // wanted returns the row of the election or group of a view, if there is one.
  wanted({ election, group }) {
    return group === "" ? this.rows.get(election) : [...this.rows.values()].find((row) => row.group === group);
  }

  // choose opens a row, and opens or closes a section.
  choose(key) {
    this.select(key);
    if (this.rows.has(key)) {
      this.open(this.rows.get(key));
      return;
    }
    const name = key.slice(1);
    if (!this.closed.delete(name)) this.closed.add(name);
    this.reorder();
  }

  select(key) {
    this.selected = key;
    for (const [k, el] of this.shown) el.classList.toggle("selected", k === key);
  }

  key(e) {
    const at = this.order.findIndex((r) => r.key === this.selected);
    const page = Math.max(1, Math.floor(this.body.clientHeight / rowHeight) - 1);
    const to = { j: at + 1, ArrowDown: at + 1, k: at - 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.order.length - 1 }[e.key];
    if (e.target !== this.body && e.key === "Enter") return; // a button or link in a row
    if (e.key === "Enter" && at >= 0) {
      this.choose(this.selected);
      e.preventDefault();
    } else if (to !== undefined && this.order.length > 0) {
      const i = Math.min(this.order.length - 1, Math.max(0, to));
      this.select(this.order[i].key);
      document.getElementById("spoken").textContent = this.spoken(this.order[i]);
      const [top, end] = this.tops.slice(i, i + 2);
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      if (end > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = end - this.body.clientHeight;
      e.preventDefault();
    }
  }

  // spoken describes a row for a screen reader.
  spoken(row) {
    if (row.section !== undefined) return `${row.section || "nobody"} ${row.does}`;
    if (row.group) return `group ${row.group}: ${stateOf(row)}, ${row.value}`;
    return row.state === "leading" ? `${row.key}: ${row.id} leads` : `${row.key}: ${stateOf(row)}`;
  }
}

// held reports whether a candidate leads or is about to.
const held = (row) => row.state === "leading" || row.state === "pending";

// natural puts node-2 before node-10.
const natural = new Intl.Collator("en", { numeric: true });

// linesOf returns how many lines a text takes at most in a width. They break between words, behind hyphens or not, as
// the browser likes, and anywhere in a word that is wider.
function linesOf(text, width, widths) {
  return Math.max(...[/(?<= )/, /(?<=[ -])/].map((ends) => {
    let lines = 1, used = 0;
    for (const piece of text.split(ends)) {
      const word = piece.trimEnd();
      for (const s of [word, piece]) if (!widths.has(s)) widths.set(s, ruler.measureText(s).width);
      if (used > 0 && used + widths.get(word) > width) {
        lines++;
        used = 0;
      }
      for (used += widths.get(word); used > width; used -= width) lines++;
      used += widths.get(piece) - widths.get(word);
    }
    return lines;
  }));
}

const adviceOf = (row) => `${row.why}. → ${row.do}. `;

// advice returns why an election is in trouble and what to do, with a link to more.
export function advice(row) {
  if (!row.link) return [adviceOf(row)];
  const link = document.createElement("a");
  Object.assign(link, { href: row.link, target: "_blank", rel: "noopener", textContent: "Runbook" });
  link.addEventListener("click", (e) => e.stopPropagation()); // it opens no election
  return [adviceOf(row), link];
}

// set changes a text, which is always shown as text.
function set(el, text) {
  if (el.textContent !== text) {
    el.textContent = text;
    el.title = text;
  }
}
