// One election: what is known of it, its past, the roster, the record, and the buttons.

import { $ } from "./dom.js";
import { Feed } from "./feed.js";
import { Shards } from "./group.js";
import { Past } from "./past.js";
import { advice, attention, classOf, stateOf } from "./table.js";
import { moment, recent } from "./times.js";

// mostChanges is how many changes of one election are kept.
const mostChanges = 200;

// mostKept is how many changes of all elections are kept. Beyond it the elections that
// changed first lose theirs.
const mostKept = 20000;

// patience is how long an answer may take, in ms. A request for which the browser has no connection
// left waits for one.
const patience = 30000;

// ends are why a term ended, by the state that follows.
const ends = { leading: "replaced", pending: "replaced", released: "released", expired: "expired", deleted: "deleted", foreign: "overwritten", unknown: "unknown" };

export class Detail {
  // closed is called when the user closes it, and choose with the range of the past that the user wants.
  constructor(now, closed, choose) {
    this.now = now;
    this.secret = "";
    this.key = "";
    this.opened = 0;          // when the page was opened, by the server's clock
    this.found = new Map();   // by key, the state in which an election was found
    this.changes = new Map(); // by key, the oldest first
    this.kept = 0;
    this.roster = [];
    $("detail-close").addEventListener("click", closed);
    $("detail").addEventListener("keydown", (e) => { if (e.key === "Escape") closed(); });
    $("drained").lastElementChild.addEventListener("click", () => { $("drained").hidden = true; });
    $("step-down").addEventListener("click", () => this.askStepDown());
    $("transfer").addEventListener("click", () => this.askTransfer());
    this.past = new Past($("past"), now, (key) => this.seen(key), choose);
    this.shards = new Shards($("shards"), (action, member) => this.askMember(action, member));
  }

  // allow shows the buttons for the actions, whose requests carry the secret.
  allow(secret, actions) {
    this.secret = secret;
    this.shards.actions = actions;
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
      if (c.key === this.key) this.past.changed();
    }
  }

  // find keeps the state in which elections were found.
  find(rows) {
    for (const row of rows) {
      if (!this.found.has(row.key)) this.found.set(row.key, { state: row.state, id: row.id, token: row.token, since: row.since || this.now() });
    }
  }

  // missed adds what has changed in rows since the page lost contact, unless the next
  // changes report it. It is not known what else has changed meanwhile.
  missed(rows, next, lost) {
    const reported = new Set(next.filter((c) => !c.first).map((c) => c.key));
    this.note(rows.filter((row) => {
      const last = this.changes.get(row.key)?.at(-1) || this.found.get(row.key);
      return last && !reported.has(row.key) && (last.state !== row.state || last.id !== row.id || last.token !== row.token);
    }).flatMap((row) => [
      { key: row.key, at: lost, state: "unknown", text: `not known until ${recent(this.now(), this.now())}: the page had lost contact`, trouble: true },
      {
        key: row.key, at: Math.max(lost, row.since || this.now()), state: row.state, id: row.id, token: row.token,
        text: row.state === "leading" ? `${row.id} leads` : `nobody leads: ${stateOf(row)}`, trouble: row.trouble < attention.pending,
      },
    ]));
  }

  open(row) {
    if (this.key !== row.key) {
      this.key = row.key;
      $("outcome").textContent = "";
      this.follow();
      this.past.open(row.key, Boolean(row.group));
    }
    $("detail").hidden = false;
    this.update(row);
    this.past.draw();
    $("detail-name").focus();
  }

  close() {
    if (this.key === "") return;
    this.feed?.close();
    this.feed = undefined;
    this.key = "";
    this.past.open("");
    $("detail").hidden = true;
    $("body").focus();
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
    this.past.standing(r.candidates);
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
    $("stored").hidden = Boolean(row.group);
    this.shards.show(row.sharing);
    this.past.sharing = row.sharing;
    const state = $("detail-state");
    state.className = row.trouble === attention.idle ? "" : classOf(row);
    state.textContent = row.group && leads ? row.value : leads ? `${row.id} leads` :
      row.state === "pending" ? `${row.id} holds the key, and does not lead yet` : `${row.group ? "There is no assigner" : "Nobody leads"}: ${st}`;
    $("detail-advice").hidden = !row.why;
    if (row.why) $("detail-advice").replaceChildren(...advice(row));
    const facts = [];
    if (row.token) facts.push([leads || row.state === "pending" ? "Token" : "Last token", row.token]);
    if (row.since) facts.push(["Since", moment(row.since)]);
    if (!leads && row.id && row.state !== "pending") facts.push(["Led last", row.id]);
    if (row.state === "pending") facts.push(["May lead by", moment(row.expires)]);
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
    if (!row.group && (before?.key !== row.key || before.revision !== row.revision)) this.readRecord();
  }

  async readRecord() {
    const key = this.key;
    try {
      const response = await fetch("api/record?election=" + encodeURIComponent(key));
      if (!response.ok || key !== this.key) return;
      const text = await response.text();
      const its = (name) => response.headers.get(`Natsleader-${name}`);
      $("record-note").textContent = its("Revision") !== "0" ? `Revision ${its("Revision")}, written ${moment(Number(its("Written")))}` + (its("Base64") ? ", in base64" : "") : "There is no record.";
      $("record").textContent = its("Base64") ? text : indented(text);
      $("record").hidden = text === "";
    } catch { /* the trouble is shown above the table */ }
  }

  // seen returns the spans of an election as the page has seen it since it was opened, and the lines of its changes.
  seen(key) {
    const spans = [];
    const lines = [];
    const add = (state, id, at) => {
      const last = spans.at(-1);
      if (last) Object.assign(last, { until: at, ended: ends[state] });
      spans.push({ state, id, since: at });
    };
    const found = this.found.get(key);
    if (found) add(found.state, found.id, Math.min(found.since, this.opened));
    for (const c of this.changes.get(key) || []) {
      if (c.first) continue;
      const at = Math.max(c.at, spans.at(-1)?.since ?? this.opened);
      add(c.state, c.id, at);
      lines.push({ at, text: c.text, bad: Boolean(c.trouble) });
    }
    return { spans, lines, from: this.opened };
  }

  // confirm asks, and returns the answer.
  confirm(title, text, to, cordons = false) {
    $("confirm-title").textContent = title;
    $("confirm-text").textContent = text;
    $("confirm-pick").hidden = !to;
    $("confirm-cordons").hidden = !cordons;
    $("confirm-cordon").checked = false;
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

  async askMember(action, member) {
    const { key, row } = this;
    const drains = action === "drain-member";
    if (await this.confirm(`${drains ? "Drain" : "Undrain"} ${member.id}?`, drains ?
      `Each of its shards of ${row.group} moves to another member as soon as the work on it has ended. It takes none until it is undrained.` +
      (member.shortage ? ` But ${member.shortage}.` : "") : `It may take shards of ${row.group} again.`)) {
      const say = (text) => { if (this.key === key) $("outcome").textContent = text; };
      say(await this.request(action, { group: row.group, name: member.id }, (answer) => answer));
    }
  }

  // drain asks all leaders of a section to hand over.
  async drain(by, name, does) {
    if (!await this.confirm(`Drain ${name}?`,
      `Each leader ${by === "host" ? "on this host" : "of this ID"} is asked to end its term, to finish its work, and to hand over: it ${does} now. ` +
      "It stays a candidate, and may lead again: stop its process soon, or cordon it.", undefined, true)) return;
    const say = (text) => { $("drained").firstElementChild.textContent = text; };
    $("drained").hidden = false;
    say(`${name} is asked. Leaders may finish their work first.`);
    say(await this.request("drain", { name, cordon: $("confirm-cordon").checked }, (answer) => answer, "Not all done"));
  }

  // uncordon lets the candidates of a name lead again.
  async uncordon(name) {
    if (!await this.confirm(`Uncordon ${name}?`, "Its candidates may lead again: one that waits for a free key takes it at once. Its drained members of groups take shards again.")) return;
    $("drained").hidden = false;
    $("drained").firstElementChild.textContent = await this.request("uncordon", { name }, (answer) => answer);
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
