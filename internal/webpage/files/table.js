// The table of elections. Only the rows that can be seen are in the document, so ten
// thousand elections cost no more than thirty.

import { age } from "./times.js";

const rowHeight = 32; // as in ui.css

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

// stateOf returns the word for the state of a row, which does not depend on colours.
export function stateOf(row) {
  if (row.trouble === attention.unknown) return "unknown";
  if (row.group && row.state === "leading") return row.trouble === attention.none ? "group" : "unowned";
  return row.state;
}

export class Table {
  // now returns the server's time in ms. open is called with the key of a row.
  constructor(now, open) {
    this.now = now;
    this.open = open;
    this.rows = new Map(); // by key
    this.order = [];       // the rows that pass the filter, sorted
    this.filter = "";
    this.kind = ""; // of the rows that are shown; empty: all
    this.sorted = { column: columns[1], down: false };
    this.selected = "";
    this.body = document.getElementById("body");
    this.place = document.getElementById("rows");
    this.shown = new Map(); // the elements of the rows that can be seen, by key
    this.spare = [];
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
      moved ||= !old || this.filter !== "" || old.state !== row.state || old.trouble !== row.trouble || old.id !== row.id ||
        this.sorted.column.compare(old, row) !== 0;
      const el = this.shown.get(row.key);
      if (el) this.fill(el, row);
    }
    // A renewal moves no row, unless the table is sorted by what it changes.
    if (moved) this.reorder();
  }

  setFilter(text) {
    this.filter = text.trim().toLowerCase();
    this.reorder();
  }

  setKind(kind) {
    this.kind = kind;
    this.reorder();
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
      this.order = [...this.rows.values()].filter((r) => this.passes(r))
        .sort((a, b) => sign * compare(a, b) || (a.key < b.key ? -1 : a.key > b.key ? 1 : 0));
      document.getElementById("spacer").style.height = `${this.order.length * rowHeight}px`;
      document.getElementById("table").setAttribute("aria-rowcount", String(this.order.length + 1));
      const none = document.getElementById("none");
      none.hidden = this.order.length > 0 || !this.began;
      none.textContent = this.rows.size > 0 ? this.filter === "" ? `No election is ${this.kind.replace("-", " ")}.` : "No election passes the filter." : "No candidate has stood in this bucket.";
    }
    const first = Math.max(0, Math.floor(this.body.scrollTop / rowHeight) - 4);
    const last = Math.min(this.order.length, Math.ceil((this.body.scrollTop + this.body.clientHeight) / rowHeight) + 4);
    const wanted = new Set();
    for (let i = first; i < last; i++) wanted.add(this.order[i].key);
    for (const [key, el] of this.shown) {
      if (!wanted.has(key)) {
        this.shown.delete(key);
        el.remove();
        el.ends = undefined;
        this.spare.push(el);
      }
    }
    let before = null;
    for (let i = first; i < last; i++) {
      const row = this.order[i];
      let el = this.shown.get(row.key);
      if (!el) {
        el = this.spare.pop() || this.make();
        this.shown.set(row.key, el);
        this.fill(el, row);
      }
      el.style.transform = `translateY(${i * rowHeight}px)`;
      el.setAttribute("aria-rowindex", String(i + 2));
      // The order in the document is that on the screen, for screen readers.
      const next = before ? before.nextSibling : this.place.firstChild;
      if (next !== el) this.place.insertBefore(el, next);
      before = el;
    }
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

  fill(el, row) {
    const st = stateOf(row);
    el.key = row.key;
    el.className = "row" + (row.trouble === attention.idle ? " idle" : "") + (row.key === this.selected ? " selected" : "");
    set(el.cells.election, row.group || row.key);
    set(el.cells.state, st);
    el.cells.state.className = `state ${st}`;
    const leads = row.state === "leading" || row.state === "pending";
    set(el.cells.leader, leads ? row.id : row.id ? `nobody (was ${row.id})` : "nobody");
    set(el.cells.token, leads && row.token || "");
    el.classList.toggle("wrong", Boolean(row.why));
    if (!row.why) set(el.cells.value, row.value || "");
    else if (el.why !== row.why) {
      el.cells.value.replaceChildren(...advice(row));
      el.cells.value.title = row.why;
    }
    el.why = row.why;
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
    set(el.left, row.expires ? `${Math.max(0, (row.expires - this.now()) / 1000).toFixed(1)}s` : "");
  }

  tick() {
    if (document.hidden) return;
    for (const [key, el] of this.shown) this.fillTimes(el, this.rows.get(key));
  }

  choose(key) {
    this.select(key);
    this.open(key);
  }

  select(key) {
    this.selected = key;
    for (const [k, el] of this.shown) el.classList.toggle("selected", k === key);
  }

  key(e) {
    const at = this.order.findIndex((r) => r.key === this.selected);
    const page = Math.max(1, Math.floor(this.body.clientHeight / rowHeight) - 1);
    const to = { ArrowDown: at + 1, ArrowUp: at < 0 ? 0 : at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: this.order.length - 1 }[e.key];
    if (e.key === "Enter" && at >= 0) {
      this.open(this.selected);
      e.preventDefault();
    } else if (to !== undefined && this.order.length > 0) {
      const i = Math.min(this.order.length - 1, Math.max(0, to));
      this.select(this.order[i].key);
      document.getElementById("spoken").textContent = this.spoken(this.order[i]);
      const top = i * rowHeight;
      if (top < this.body.scrollTop) this.body.scrollTop = top;
      if (top + rowHeight > this.body.scrollTop + this.body.clientHeight) this.body.scrollTop = top + rowHeight - this.body.clientHeight;
      e.preventDefault();
    }
  }

  // spoken describes a row for a screen reader.
  spoken(row) {
    if (row.group) return `group ${row.group}: ${stateOf(row)}, ${row.value}`;
    return row.state === "leading" ? `${row.key}: ${row.id} leads` : `${row.key}: ${stateOf(row)}`;
  }
}

// advice returns why an election is in trouble and what to do, with a link to more.
export function advice(row) {
  const link = document.createElement("a");
  Object.assign(link, { href: row.link, target: "_blank", rel: "noopener", textContent: "Runbook" });
  link.addEventListener("click", (e) => e.stopPropagation()); // it opens no election
  return [`${row.why}. → ${row.do}. `, link];
}

// set changes a text, which is always shown as text.
function set(el, text) {
  if (el.textContent !== text) {
    el.textContent = text;
    el.title = text;
  }
}
