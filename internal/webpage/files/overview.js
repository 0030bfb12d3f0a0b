// What has changed in all elections in the last hour, day or week, and for how long nobody worked today, from the history of
// the bucket.

import { $, closes, make } from "./dom.js";
import { Choice, hour, rangeNamed, ranges } from "./past.js";
import { took } from "./picture.js";
import { midnight, recent } from "./times.js";

// lag is how long after a change the history is read again, in ms, and rest how long it is not read after that, at least.
const lag = 1000;
const rest = 10000;

// share is how many times as long as a read the rest is.
const share = 10;

const narrow = matchMedia("(max-width: 40rem)").matches;

const marked = (text, trouble) => trouble ? `▲ ${text}` : text;

// second is the least that is said of a time, in ms, and long says one of them.
const second = 1000;
const long = (ms) => ms < second ? "0 s" : took(ms);

// spoken says for how long nobody worked. A leader that is silent may have worked until its renew deadline.
const spoken = (least, most) => most - least < second ? long(most) : `${long(least)} to ${long(most)}`;

export class Overview {
  // open shows an election, and choose another range.
  constructor(place, now, open, choose) {
    Object.assign(this, { place, now, open, range: ranges[0], next: 0, unworked: [], stopped: 0 });
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

  // fail is called when the page is not up to date since a moment; 0: it is.
  fail(since) {
    if (this.stopped === since) return;
    if (since === 0) this.changed(); // it may have missed some
    this.stopped = since;
    this.tick();
  }

  async read() {
    const { range } = this;
    this.choice.show(range);
    this.stale = false;
    const day = this.begun = midnight(this.now());
    const begun = performance.now();
    let error = "";
    let got;
    try {
      const response = await fetch(`api/past?election=&hours=${range[1] / hour}&since=${day}`);
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
    this.unknown = got?.unknown || 0;
    this.day = day;
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

  // tick shows for how long nobody worked today, until now, and for how long that is not known. The number is the least then.
  tick() {
    if (!this.begun || document.hidden) return;
    const today = midnight(this.now());
    if (today !== this.begun) this.changed();
    const failed = this.failed || today !== this.day;
    const until = this.stopped ? Math.max(this.at, this.stopped) : this.now();
    const more = until - this.at;
    const lost = this.now() - until; // nothing is known since then
    const all = this.unworked.map(({ election, others, least, most, unknown = 0, goes = 0, blind }) => ({
      name: election || `${others} others`, opens: Boolean(election), goes,
      least: least + goes * more, most: most + goes * more, unknown: unknown + (blind ? more : 0) + lost,
    }));
    const sum = (field) => all.reduce((n, x) => n + x[field], 0);
    const [least, most, unknown] = [sum("least"), sum("most"), Math.max(this.unknown + lost, ...all.map((x) => x.unknown))];
    const [number, what] = $("today").firstElementChild.children;
    const known = unknown < second;
    number.textContent = failed ? "–" : known ? (most - least < second ? "" : "up to ") + long(most) : `at least ${long(least)}`;
    what.textContent = `nobody at work today${failed ? ": not known" : known ? "" : `, not known: ${took(unknown)}`}`;
    $("today").classList.toggle("bad", !failed && all.some((x) => x.goes));
    const lines = failed ? [] : all.map((x) => [x.name, [
      x.most < second ? "" : spoken(x.least, x.most) + (x.goes && !lost ? ", until now" : ""), x.unknown < second ? "" : `not known: ${took(x.unknown)}`,
    ].filter(Boolean).join("; "), x.opens]);
    const text = failed ? this.note.textContent || "It is being read." : [
      this.since ? `Nothing is known of the time before ${recent(this.since, this.now())}.` : "",
      lost ? `Nothing is known of the time since ${recent(until, this.now())}.` : "",
      known && lines.length === 0 ? "As far as the history says, each election that candidates wanted was led." : "",
      all.some((x) => x.most - x.least >= second) ? "A leader whose lease ran out or whose key was deleted may have worked until its renew deadline: hence a range." : "",
      "Shards of groups are not counted.",
    ].filter(Boolean).join(" ");
    const shown = JSON.stringify([lines, text]);
    if (shown === this.shown) return;
    this.shown = shown;
    const names = [...$("unworked").querySelectorAll("li > :first-child")];
    if (names.length > 0 && names.length === lines.length && lines.every(([name], i) => names[i].textContent === name)) {
      lines.forEach(([, time], i) => { names[i].nextSibling.textContent = ` ${time}`; }); // none under the mouse is made anew
      $("unworked").lastElementChild.textContent = text;
      return;
    }
    $("unworked").replaceChildren(...lines.map(([name, time, opens]) => make("li", {},
      opens ? make("button", { type: "button", textContent: name, onclick: () => {
        $("today").open = false;
        this.open(name);
      } }) : make("span", { textContent: name }), ` ${time}`)), make("li", { className: "advice", textContent: text }));
  }
}
