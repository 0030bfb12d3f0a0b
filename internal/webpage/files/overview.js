// What has changed in all elections in the last hour, day or week, from the history of the bucket.

import { hour, make, ranges } from "./past.js";
import { recent } from "./times.js";

// lag is how long after a change the history is read again, in ms, and rest how long it is not read after that, at least.
const lag = 1000;
const rest = 10000;

// share is how many times as long as a read the rest is.
const share = 10;

const narrow = matchMedia("(max-width: 40rem)").matches;

const marked = (text, trouble) => trouble ? `▲ ${text}` : text;

export class Overview {
  // open shows an election.
  constructor(place, now, open) {
    Object.assign(this, { place, now, open, range: ranges[0], next: 0 });
    this.title = make("summary");
    this.buttons = ranges.map((range) => make("button", {
      type: "button", textContent: range[0], onclick: () => {
        this.range = range;
        this.read();
      },
    }));
    this.note = make("p", { className: "note", hidden: true });
    this.lines = make("ol", { tabIndex: 0 });
    this.lines.setAttribute("aria-label", "Changes");
    place.append(this.title, make("p", { className: "ranges" }, "The last ", ...this.buttons), this.note, this.lines);
    place.open = !narrow;
    place.addEventListener("toggle", () => this.wanted());
    document.addEventListener("visibilitychange", () => this.wanted());
  }

  // changed is called when the leader of an election is another one.
  changed() {
    this.stale = true;
    this.wanted();
  }

  // wanted reads what has changed if it is seen.
  wanted() {
    if (!this.stale || this.waits || !this.place.open || document.hidden || this.none) return;
    this.waits = setTimeout(() => {
      this.waits = undefined;
      this.read();
    }, Math.max(lag, this.next - performance.now()));
  }

  async read() {
    const { range } = this;
    for (const [i, button] of this.buttons.entries()) button.setAttribute("aria-pressed", String(ranges[i] === range));
    this.stale = false;
    const begun = performance.now();
    let error = "";
    let got;
    try {
      const response = await fetch(`api/past?election=&hours=${range[1] / hour}`);
      if (response.ok) got = await response.json();
      else if (response.status === 404) got = {}; // this program has none
      else error = (await response.text()).trim();
    } catch { error = "there is no answer"; }
    this.next = performance.now() + Math.max(rest, share * (performance.now() - begun));
    if (range !== this.range) return;
    this.none = got && !got.kept;
    this.place.hidden = this.none || !got && this.place.hidden;
    if (got?.kept) this.show(got.spans.reverse());
    const note = error ? `The history cannot be read now: ${error}` : (got.notes || []).join(" ");
    this.note.hidden = note === "";
    this.note.textContent = note;
    if (error) this.changed(); // try again
  }

  show(lines) {
    const bad = lines.filter((line) => line.trouble).length;
    const count = lines.length === 0 ? "no change" : `${lines.length} change${lines.length === 1 ? "" : "s"}${bad ? `, trouble in ${bad}` : ""}`;
    this.title.textContent = `The last ${this.range[0]}: ${count}`;
    this.lines.hidden = lines.length === 0;
    this.lines.replaceChildren(...lines.map(({ at, text, trouble, election, elections }) => make("li", { className: trouble ? "bad" : "" },
      make("time", { dateTime: at, textContent: recent(Date.parse(at), this.now()) }),
      election ? make("button", { type: "button", textContent: marked(text, trouble), onclick: () => this.open(election) }) :
        make("span", { textContent: marked(text, trouble), title: elections }))));
  }
}
