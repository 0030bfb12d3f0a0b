// What has changed in all elections in the last hour, day or week, and for how long nobody worked today, from the history of
// the bucket.

import { $, closes, make } from "./dom.js";
import { Choice, hour, rangeNamed, ranges } from "./past.js";
import { took } from "./picture.js";
import { recent } from "./times.js";

// lag is how long after a change the history is read again, in ms, and rest how long it is not read after that, at least.
const lag = 1000;
const rest = 10000;

// share is how many times as long as a read the rest is.
const share = 10;

const narrow = matchMedia("(max-width: 40rem)").matches;

const marked = (text, trouble) => trouble ? `▲ ${text}` : text;

// spoken says for how long nobody worked. A leader that is silent may have worked until its renew deadline.
const spoken = (least, most) => most - least < 1000 ? took(most) : `${took(least)} to ${took(most)}`;

export class Overview {
  // open shows an election, and choose another range.
  constructor(place, now, open, choose) {
    Object.assign(this, { place, now, open, range: ranges[0], next: 0, unworked: [] });
    this.title = make("summary");
    this.choice = new Choice(choose);
    this.note = make("p", { className: "note", hidden: true });
    this.lines = make("ol", { tabIndex: 0 });
    this.lines.setAttribute("aria-label", "Changes");
    place.append(this.title, this.choice.place, this.note, this.lines);
    place.open = !narrow;
    document.addEventListener("visibilitychange", () => this.wanted());
    closes($("today"));
    setInterval(() => this.tick(), 1000);
  }

  // choose shows another range.
  choose(name) {
    if (this.range[0] === name) return;
    this.range = rangeNamed(name);
    if (this.begun) this.read();
  }

  // changed is called when the leader of an election is another one.
  changed() {
    this.stale = true;
    this.wanted();
  }

  // wanted reads what has changed if it is seen.
  wanted() {
    if (!this.stale || this.waits || document.hidden || this.none) return;
    this.waits = setTimeout(() => {
      this.waits = undefined;
      this.read();
    }, Math.max(lag, this.next - performance.now()));
  }

  // midnight returns when the day began in the zone of this browser.
  midnight() { return new Date(this.now()).setHours(0, 0, 0, 0); }

  async read() {
    const { range } = this;
    this.choice.show(range);
    this.stale = false;
    this.begun = this.midnight();
    const begun = performance.now();
    let error = "";
    let got;
    try {
      const response = await fetch(`api/past?election=&hours=${range[1] / hour}&since=${this.begun}`);
      if (response.ok) got = await response.json();
      else if (response.status === 404) got = {}; // this program has none
      else error = (await response.text()).trim();
    } catch { error = "there is no answer"; }
    this.next = performance.now() + Math.max(rest, share * (performance.now() - begun));
    if (range !== this.range) return;
    this.none = got && !got.kept;
    const note = error ? `The history cannot be read now: ${error}` : (got.notes || []).join(" ");
    this.place.hidden = this.none && note === "";
    if (got?.kept) this.show(got.spans.reverse());
    else this.title.textContent = `The last ${range[0]}: the history cannot be read`;
    this.note.hidden = note === "";
    this.note.textContent = note;
    $("today").hidden = this.place.hidden;
    this.failed = Boolean(note) && !got?.kept;
    this.since = got?.from ? Date.parse(got.from) : 0;
    this.unworked = got?.unworked || [];
    this.at = this.now();
    this.tick();
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

  // tick shows for how long nobody worked today, until now.
  tick() {
    if (!this.begun || document.hidden) return;
    if (this.midnight() !== this.begun) this.changed();
    const all = this.unworked.map(({ election, least, most, goes }) => {
      const more = goes ? this.now() - this.at : 0;
      return { election, goes, least: least + more, most: most + more };
    });
    const sum = (field) => all.reduce((n, x) => n + x[field], 0);
    const [number, what] = $("today").firstElementChild.children;
    number.textContent = this.failed ? "–" : all.length > 0 ? took(sum("most")) : "0 s";
    const since = this.since ? `since ${recent(this.since, this.now())}` : "today";
    what.textContent = `nobody at work ${since}${this.failed ? ": not known" : ""}`;
    $("today").classList.toggle("bad", all.some((x) => x.goes));
    const lines = all.map(({ election, least, most, goes }) => [election, `${spoken(least, most)}${goes ? ", until now" : ""}`]);
    const text = this.failed ? this.note.textContent : lines.length === 0 ? "As far as the history says, each election that candidates wanted was led." :
      "A leader that did not renew its lease may have worked until its renew deadline: hence a range.";
    const shown = JSON.stringify([lines, text]);
    if (shown === this.shown) return;
    this.shown = shown;
    const buttons = $("unworked").querySelectorAll("button");
    if (buttons.length > 0 && buttons.length === lines.length && lines.every(([name], i) => buttons[i].textContent === name)) {
      lines.forEach(([, time], i) => { buttons[i].nextSibling.textContent = ` ${time}`; }); // none under the mouse is made anew
      return;
    }
    $("unworked").replaceChildren(...lines.map(([name, time]) => make("li", {},
      make("button", { type: "button", textContent: name, onclick: () => {
        $("today").open = false;
        this.open(name);
      } }), ` ${time}`)), make("li", { className: "advice", textContent: text }));
  }
}
