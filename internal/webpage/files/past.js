// The past of the election that is shown in detail: from the history of the bucket, or what the page has seen.

import { Picture, lanesOf, linesOf } from "./picture.js";
import { moment, recent } from "./times.js";

export const hour = 3600000;
export const ranges = [["hour", hour], ["day", 24 * hour], ["week", 168 * hour]];

// mostLines is how many lines are listed.
const mostLines = 50;

// lag is how long after a change the history is read again, in ms.
const lag = 1000;

// leastShown is the shortest time that the picture shows.
const leastShown = 60000;

export function make(tag, properties, ...children) {
  const el = Object.assign(document.createElement(tag), properties);
  el.append(...children);
  return el;
}

export class Past {
  // seen returns the spans that the page itself has seen of an election, and since when.
  constructor(place, now, seen) {
    Object.assign(this, { now, seen, key: "", range: ranges[0], roster: [] });
    this.title = make("h3");
    this.buttons = ranges.map((range) => make("button", {
      type: "button", textContent: range[0], onclick: () => {
        this.range = range;
        this.read();
      },
    }));
    this.choice = make("p", { className: "ranges", hidden: true }, "The last ", ...this.buttons);
    this.note = make("p", { className: "note", hidden: true });
    const drawn = make("div");
    this.lines = make("ol", { id: "changes" });
    place.append(this.title, this.choice, this.note, drawn, this.lines);
    this.picture = new Picture(drawn);
    setInterval(() => { if (!document.hidden) this.draw(); }, 1000);
  }

  // open shows an election; none if the key is empty.
  open(key) {
    Object.assign(this, { key, held: undefined, roster: [] });
    this.say("");
    if (key !== "") this.read();
  }

  // changed is called when the leader or the state of the election is another one.
  changed() {
    this.draw();
    if (this.held === null) return; // the bucket keeps no history
    clearTimeout(this.waits);
    this.waits = setTimeout(() => this.read(), lag);
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
    } else if (!got.kept) {
      this.held = null;
      if (got.kept === false) this.say(got.notes?.join(" ") || "This bucket keeps no history of the time before. To begin one: natsleader bucket add --history 30d");
    } else {
      for (const span of got.spans) {
        span.why = "the history misses what was written then";
        for (const field of ["since", "until", "renewed"]) if (span[field]) span[field] = Date.parse(span[field]);
      }
      this.held = got.spans;
      this.say(got.notes.join(" "));
    }
    this.draw();
  }

  say(text) {
    this.note.hidden = text === "";
    this.note.textContent = text;
  }

  draw() {
    if (this.key === "") return;
    const now = this.now();
    const { spans, from } = this.held ? { spans: this.held, from: now - this.range[1] } : this.seen(this.key);
    this.title.textContent = this.held ? "The past" : "Since the page was opened";
    this.choice.hidden = !this.held;
    for (const [i, button] of this.buttons.entries()) button.setAttribute("aria-pressed", String(ranges[i] === this.range));
    const all = linesOf(spans, now).filter((line) => line.at >= from);
    const bad = all.filter((line) => line.bad).length;
    const begin = Math.min(from, now - leastShown);
    this.picture.draw(lanesOf(spans, begin, now, this.roster), begin, now,
      `Who led from ${moment(from)} until now: ${all.length} changes, ${bad} of them no handover. The list below has them.`);
    const shown = all.slice(-mostLines).reverse();
    const text = JSON.stringify(shown);
    if (text === this.listed) return;
    this.listed = text;
    this.lines.replaceChildren(...shown.map(({ at, text, bad }) => make("li", { className: bad ? "bad" : "" },
      make("time", { dateTime: new Date(at).toISOString(), textContent: recent(at, now) }), text)));
  }
}
