// One election: what is known of it, its time line since the page was opened, the roster,
// the record, and the buttons.

import { Feed } from "./feed.js";
import { advice, attention, stateOf } from "./table.js";
import { age, moment, recent } from "./times.js";

const $ = (id) => document.getElementById(id);

// mostChanges is how many changes of one election are kept, and mostLines how many are listed.
const mostChanges = 200;
const mostLines = 50;

// mostKept is how many changes of all elections are kept. Beyond it the elections that
// changed first lose theirs.
const mostKept = 20000;

// patience is how long an answer may take, in ms. A request for which the browser has no connection
// left waits for one.
const patience = 30000;

export class Detail {
  constructor(now, closed) {
    this.now = now;
    this.secret = "";
    this.closed = closed;
    this.key = "";
    this.opened = 0;          // when the page was opened, by the server's clock
    this.found = new Map();   // by key, the state in which an election was found
    this.changes = new Map(); // by key, the oldest first
    this.kept = 0;
    this.roster = [];
    $("detail-close").addEventListener("click", () => this.close());
    $("detail").addEventListener("keydown", (e) => { if (e.key === "Escape") this.close(); });
    $("drained").lastElementChild.addEventListener("click", () => { $("drained").hidden = true; });
    $("step-down").addEventListener("click", () => this.askStepDown());
    $("transfer").addEventListener("click", () => this.askTransfer());
    setInterval(() => { if (!document.hidden) this.drawTimeline(); }, 1000);
  }

  // allow shows the buttons for the actions, whose requests carry the secret.
  allow(secret, actions) {
    this.secret = secret;
    for (const id of ["step-down", "transfer"]) $(id).hidden = !actions.includes(id);
    $("detail-actions").hidden = $("step-down").hidden && $("transfer").hidden;
  }

  // note keeps the changes of all elections, so that the time line of each is there.
  note(changes) {
    for (const c of changes) {
      let list = this.changes.get(c.key);
      if (!list) this.changes.set(c.key, list = []);
      list.push(c);
      if (list.length > mostChanges) list.shift();
      else this.kept++;
      if (this.kept > mostKept) {
        const [first, old] = this.changes.entries().next().value;
        this.changes.delete(first);
        this.kept -= old.length;
      }
      if (c.key === this.key) this.fresh = true;
    }
  }

  // find keeps the state in which elections were found.
  find(rows) {
    for (const row of rows) {
      if (!this.found.has(row.key)) this.found.set(row.key, { state: row.state, id: row.id, token: row.token });
    }
  }

  // missed adds what has changed in rows while the page had lost contact, unless the next
  // changes report it.
  missed(rows, next) {
    const reported = new Set(next.map((c) => c.key));
    this.note(rows.filter((row) => {
      const last = this.changes.get(row.key)?.at(-1) || this.found.get(row.key);
      return last && !reported.has(row.key) && (last.state !== row.state || last.id !== row.id || last.token !== row.token);
    }).map((row) => ({
      key: row.key, at: row.since || this.now(), state: row.state, id: row.id, token: row.token,
      text: `${stateOf(row)}${row.id ? " " + row.id : ""}: found so after the page had lost contact`,
    })));
  }

  open(row) {
    if (this.key !== row.key) {
      this.key = row.key;
      this.fresh = true;
      $("outcome").textContent = "";
      this.follow();
    }
    $("detail").hidden = false;
    this.update(row);
    $("detail-name").focus();
  }

  close() {
    this.feed?.close();
    this.feed = undefined;
    this.key = "";
    $("detail").hidden = true;
    this.closed();
  }

  // follow listens for changes of the roster.
  follow() {
    this.feed?.close();
    this.showRoster({ kept: true, candidates: [] }, "Reading the roster.");
    const feed = this.feed = new Feed("api/roster?election=" + encodeURIComponent(this.key), (r) => {
      if (!r.kept) feed.close(); // it stays so
      this.showRoster(r, !r.kept ? "This bucket keeps no roster, so it is not known which candidates stand." :
        r.error || (r.candidates.length === 0 ? "No other candidate has announced itself." : ""));
    }, () => {
      $("roster-note").textContent = "The roster cannot be read now.";
      $("roster-note").hidden = false;
    });
  }

  showRoster(r, note) {
    this.roster = r.candidates;
    $("roster-note").textContent = note;
    $("roster-note").hidden = note === "";
    $("roster").replaceChildren(...r.candidates.map((c) => {
      const li = document.createElement("li");
      const extra = [c.priority ? `priority ${c.priority}` : "", c.preempt ? "preempts" : "", c.denied ? "its last write was denied" : "", c.value || ""].filter(Boolean);
      li.textContent = c.id + (extra.length > 0 ? ` (${extra.join(", ")})` : "");
      return li;
    }));
  }

  // update takes the row that is shown, when it has changed.
  update(row) {
    if (row.key !== this.key) return;
    const before = this.row;
    this.row = row;
    const st = stateOf(row);
    const leads = row.state === "leading";
    $("detail-name").textContent = row.group ? `Group ${row.group}` : row.key;
    $("record-title").textContent = row.group ? "Members" : "Record as stored";
    $("record").classList.toggle("members", Boolean(row.group));
    const above = $(row.group ? "detail-actions" : "roster");
    if (above.nextElementSibling !== $("stored")) above.after($("stored"));
    const state = $("detail-state");
    state.className = row.trouble === attention.idle ? "" : st;
    state.textContent = row.group && leads ? row.value : leads ? `${row.id} leads` :
      row.state === "pending" ? `${row.id} holds the key, and does not lead yet` : `${row.group ? "There is no assigner" : "Nobody leads"}: ${st}`;
    $("detail-advice").hidden = !row.why;
    if (row.why) $("detail-advice").replaceChildren(...advice(row));
    const facts = [];
    if (row.token) facts.push([leads || row.state === "pending" ? "Token" : "Last token", row.token]);
    if (row.since) facts.push(["Since", moment(row.since)]);
    if (!leads && row.id && row.state !== "pending") facts.push(["Led last", row.id]);
    if (row.lease) facts.push(["Lease", `${row.lease / 1000}s`]);
    if (row.group) facts.push(leads ? ["Assigner", row.id] : ["Shards", row.value]);
    else if (row.value) facts.push([row.value64 ? "Publishes (base64)" : "Publishes", row.value]);
    $("detail-facts").replaceChildren(...facts.flatMap(([name, value]) => {
      const dt = document.createElement("dt");
      const dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      return [dt, dd];
    }));
    for (const id of ["step-down", "transfer"]) $(id).disabled = !leads;
    if (before?.key !== row.key || before.revision !== row.revision) this.readRecord();
    if (this.fresh) {
      this.fresh = false;
      this.listChanges();
    }
    this.drawTimeline();
  }

  async readRecord() {
    const key = this.key;
    try {
      const response = await fetch("api/record?election=" + encodeURIComponent(key));
      if (!response.ok || key !== this.key) return;
      const text = await response.text();
      const its = (name) => response.headers.get(`Natsleader-${name}`);
      $("record-note").textContent = this.row.group ? "" : its("Revision") !== "0" ? `Revision ${its("Revision")}, written ${moment(Number(its("Written")))}` + (its("Base64") ? ", in base64" : "") : "There is no record.";
      $("record").textContent = this.row.group || its("Base64") ? text : indented(text);
      $("record").hidden = text === "";
    } catch { /* the trouble is shown above the table */ }
  }

  listChanges() {
    const list = (this.changes.get(this.key) || []).slice(-mostLines).reverse();
    $("changes").replaceChildren(...list.map((c) => {
      const li = document.createElement("li");
      const time = document.createElement("time");
      time.dateTime = new Date(c.at).toISOString();
      time.textContent = recent(c.at, this.now());
      li.append(time, c.text + (c.first ? " (found so)" : ""));
      return li;
    }));
  }

  // drawTimeline draws terms and vacancies from when the page was opened until now.
  drawTimeline() {
    if (this.key === "" || !this.row) return;
    const from = this.opened;
    const now = Math.max(this.now(), from + 1);
    const parts = [];
    let { state, id } = this.found.get(this.key);
    const list = this.changes.get(this.key) || [];
    let at = from;
    const add = (until) => {
      if (until > at && state) parts.push({ state, id, ms: until - at });
      at = Math.max(at, until);
    };
    for (const c of list) {
      add(Math.min(now, Math.max(from, c.at)));
      ({ state, id } = c);
    }
    add(now);
    const words = { led: "led by", held: "held by", vacant: "nobody" };
    const kind = (s) => s === "leading" ? "led" : s === "pending" ? "held" : "vacant";
    const timeline = $("timeline");
    timeline.replaceChildren(...parts.map((p) => {
      const span = document.createElement("span");
      span.className = kind(p.state);
      span.style.flexGrow = String(p.ms);
      span.title = `${words[kind(p.state)]} ${kind(p.state) === "vacant" ? "" : p.id || ""} for ${age(p.ms)}`;
      return span;
    }));
    const vacant = parts.filter((p) => kind(p.state) === "vacant").reduce((sum, p) => sum + p.ms, 0);
    timeline.setAttribute("aria-label", `Time line: ${parts.filter((p) => kind(p.state) === "led").length} terms, ${age(vacant)} without a leader`);
    $("timeline-from").textContent = `${age(now - from)} ago`;
  }

  // confirm asks, and returns the answer.
  confirm(title, text, to) {
    $("confirm-title").textContent = title;
    $("confirm-text").textContent = text;
    $("confirm-pick").hidden = !to;
    $("confirm-to").replaceChildren(...(to || []).map(([value, name]) => new Option(name, value)));
    const dialog = $("confirm");
    dialog.returnValue = "no";
    dialog.showModal();
    return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
  }

  async askStepDown() {
    const { key, row } = this;
    const alone = this.roster.length === 0 ? " It is not known whether another candidate stands: if none does, nobody leads until it takes the key again." : "";
    if (await this.confirm(`Step down from ${key}?`, `${row.id} is asked to end its term, to finish its work, and to hand over.${alone}`)) {
      await this.act("step-down", { election: key, token: row.token });
    }
  }

  async askTransfer() {
    const { key, row } = this;
    const to = [["", "the next of the roster"], ...this.roster.map((c) => [c.id, c.id])];
    if (await this.confirm(`Transfer ${key}?`, `${row.id} is asked to hand over.`, to)) {
      await this.act("transfer", { election: key, token: row.token, id: $("confirm-to").value });
    }
  }

  async act(what, body) {
    const say = (text) => { if (this.key === body.election) $("outcome").textContent = text; };
    say("Asked. The leader may finish its work first.");
    say(await this.request(what, body, (answer) => answer.leader ?
      `${answer.from.id} has handed over, and ${answer.leader.id} leads.` : `${answer.from.id} has handed over. Nobody leads yet.`));
  }

  // drain asks all leaders of a section to hand over.
  async drain(by, name, size) {
    if (!await this.confirm(`Drain ${name}?`,
      `Each leader ${by === "host" ? "on this host" : "of this ID"} is asked to end its term, to finish its work, and to hand over (${size} here now). ` +
      "It stays a candidate, and may lead again: stop its process soon.")) return;
    const say = (text) => { $("drained").firstElementChild.textContent = text; };
    $("drained").hidden = false;
    say(`${name} is asked. Leaders may finish their work first.`);
    say(await this.request("drain", { [by === "host" ? "host" : "id"]: name }, (answer) => answer, "Not all done"));
  }

  // request asks the program for an action, and returns what words makes of its answer, or the error.
  async request(what, body, words, not = "Not done") {
    try {
      const response = await fetch("api/" + what, {
        method: "POST", body: JSON.stringify(body), signal: AbortSignal.timeout(patience),
        headers: { "Content-Type": "application/json", "Natsleader-Secret": this.secret },
      });
      const answer = response.headers.get("Content-Type")?.startsWith("application/json") ? await response.json() : { error: await response.text() };
      return answer.error ? `${not}: ${answer.error}` : words(answer);
    } catch (e) {
      return `Not known: ${e.message}`;
    }
  }
}

// indented gives each member of a JSON text a line of its own. It changes no token: numbers of 64 bits stay as they are.
function indented(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let depth = 0;
  const line = () => "\n" + "  ".repeat(depth);
  return text.replace(/"(?:[^"\\]|\\.)*"|\{\s*\}|\[\s*\]|[{}[\],:]|\s+/g, (t) => {
    switch (t) {
      case "{": case "[": depth++; return t + line();
      case "}": case "]": depth--; return line() + t;
      case ",": return t + line();
      case ":": return ": ";
      default: return t.trim();
    }
  });
}
