// The past of the election that is shown in detail: from the history of the bucket, or what the page has seen.

import { make } from "./dom.js";
import { movesOf } from "./group.js";
import { Picture, lanesOf } from "./picture.js";
import { moment, recent } from "./times.js";

export const hour = 3600000;
export const ranges = [["hour", hour], ["day", 24 * hour], ["week", 168 * hour]];

// mostLines is how many lines are listed.
const mostLines = 50;

// lag is how long after a change the history is read again, in ms.
const lag = 1000;

// rest is how long after a failure it is read again.
const rest = 10000;

// leastShown is the shortest time that the picture shows.
const leastShown = 20000;

// rangeNamed returns the range with a name.
export const rangeNamed = (name) => ranges.find((range) => range[0] === name);

// Choice are the buttons for a range. choose is called with the name of one.
export class Choice {
  constructor(choose) {
    this.buttons = ranges.map(([name]) => make("button", { type: "button", textContent: name, onclick: () => choose(name) }));
    this.since = make("span");
    this.place = make("p", { className: "ranges" }, "The last ", ...this.buttons, this.since);
  }

  show(range) {
    for (const [i, button] of this.buttons.entries()) button.setAttribute("aria-pressed", String(ranges[i] === range));
  }
}

export class Past {
  // seen returns the spans that the page itself has seen of an election, the lines of its changes, and since when.
  constructor(place, now, seen, choose) {
    Object.assign(this, { place, now, seen, key: "", range: ranges[0], roster: [] });
    this.title = make("h3");
    this.choice = new Choice(choose);
    this.note = make("p", { className: "note", hidden: true });
    const drawn = make("div");
    this.lines = make("ol", { id: "changes" });
    place.append(this.title, this.choice.place, this.note, drawn, this.lines);
    this.picture = new Picture(drawn);
    setInterval(() => { if (!document.hidden) this.draw(); }, 1000);
  }

  // open shows an election; none if the key is empty.
  open(key, ofGroup) {
    Object.assign(this, { key, held: undefined, roster: [], ofGroup, sharing: undefined });
    this.say("");
    if (key !== "" && !ofGroup) this.read();
  }

  // choose shows another range.
  choose(name) {
    if (this.range[0] === name) return;
    this.range = rangeNamed(name);
    if (this.key !== "" && !this.ofGroup) this.read();
  }

  // changed is called when the leader or the state of the election is another one.
  changed() {
    this.draw();
    if (this.held === null || this.ofGroup) return; // the bucket keeps no history, or the row has it
    this.again(lag);
  }

  // again reads the history after some time, in ms.
  again(after) {
    clearTimeout(this.waits);
    this.waits = setTimeout(() => { if (this.key !== "" && !this.ofGroup) this.read(); }, after);
  }

  standing(roster) {
    this.roster = roster;
    this.draw();
  }

  async read() {
    const { key, range } = this;
    this.draw();
    let error = "";
    let got;
    try {
      const response = await fetch(`api/past?election=${encodeURIComponent(key)}&hours=${range[1] / hour}`);
      if (response.ok) got = await response.json();
      else if (response.status === 404) got = {}; // this program has none
      else error = (await response.text()).trim();
    } catch { error = "there is no answer"; }
    if (key !== this.key || range !== this.range) return;
    if (error) {
      this.say(`The history cannot be read now: ${error}`);
      this.again(rest);
    } else if (!got.kept) {
      this.held = null;
      if (got.kept === false) this.say(got.notes?.join(" ") || "This bucket keeps no history of the time before. To begin one: natsleader bucket add --history 30d");
    } else {
      for (const span of got.spans) {
        for (const field of ["since", "until", "renewed"]) if (span[field]) span[field] = Date.parse(span[field]);
      }
      this.held = got.spans;
      this.told = (got.lines || []).map(({ at, text, trouble }) => ({ at: Date.parse(at), text, bad: Boolean(trouble) }));
      this.say(got.notes.join(" "));
    }
    this.draw();
  }

  say(text) {
    this.note.hidden = text === "";
    this.note.textContent = text;
  }

  draw() {
    this.place.hidden = this.ofGroup && !this.sharing;
    if (this.key === "" || this.place.hidden) return;
    const now = this.now();
    this.choice.place.hidden = this.ofGroup || !this.held;
    this.choice.show(this.range);
    if (this.ofGroup) this.drawMoves(now);
    else this.drawSpans(now);
  }

  drawMoves(now) {
    const { since, steps = [] } = this.sharing;
    this.title.textContent = `Moves since ${recent(since, now)}`;
    const from = Math.min(since, now - leastShown);
    this.picture.draw(movesOf(this.sharing, now), from, now, `Which member owned how many shards from ${moment(since)} until now. The list below has the changes.`);
    this.list(steps.map(({ at, text, trouble }) => ({ at, text, bad: trouble })), now);
  }

  // drawSpans shows who led. The picture begins when something is known.
  drawSpans(now) {
    const { spans, lines, from } = this.held ? { spans: this.held, lines: this.told, from: now - this.range[1] } : this.seen(this.key);
    this.title.textContent = this.held ? "The past" : "Since the page was opened";
    const known = Math.max(from, spans[0]?.since ?? from);
    this.choice.since.textContent = known > from ? `known since ${recent(known, now)}` : "";
    const bad = lines.filter((line) => line.bad).length;
    const begin = Math.min(known, now - leastShown);
    this.picture.draw(lanesOf(spans, begin, now, this.roster), begin, now,
      `Who led from ${moment(known)} until now: ${lines.length} changes, trouble in ${bad} of them. The list below has them.`);
    this.list(lines.slice(-mostLines), now);
  }

  // list shows the lines of changes, the newest first.
  list(lines, now) {
    const text = JSON.stringify(lines);
    if (text === this.listed) return;
    this.listed = text;
    this.lines.replaceChildren(...lines.reverse().map(({ at, text, bad }) => make("li", { className: bad ? "bad" : "" },
      make("time", { dateTime: new Date(at).toISOString(), textContent: recent(at, now) }), text)));
  }
}
