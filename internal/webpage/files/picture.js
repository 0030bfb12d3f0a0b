// The past of an election: a picture with one lane for each candidate, and the same in lines of text. The page and the
// playground draw with it. Times are in ms since 1970, by the server's clock.
//
// A span is {state, id, since, until, ended, renewed}, as `natsleader history --json` prints it. A lane is {name, parts}, and a
// part {kind, from, to, note, share}. A part without an end goes on, one without a note gets one, and one with a share is that much of a bar high.

import { age, moment } from "./times.js";

// shortest is the shortest time without a leader that the picture shows. A handover takes less.
const shortest = 1000;

// mostLanes is how many candidates have a lane of their own. Those before them share one.
const mostLanes = 10;

const laneHeight = 34;
const barHeight = 14;
const axisHeight = 20;
const tones = 8; // as in picture.css

// kinds are those of parts: what the key of the picture says, how much thinner than the lane a bar is on each side, and
// whether it is hatched.
const kinds = {
  leads: { text: "leads", inset: 0 },
  owns: { text: "owns shards: the higher, the more", inset: 0 },
  lapses: { text: "its lease runs out", inset: 0, hatched: true },
  pending: { text: "holds the key, does not lead yet", inset: 0, hatched: true },
  drains: { text: "ends its work", inset: 4 },
  waits: { text: "waits", inset: 6 },
  cut: { text: "waits, cut off", inset: 5, hatched: true },
  frozen: { text: "frozen", inset: 5, hatched: true },
  gone: { text: "gone", inset: 6 },
  vacant: { text: "nobody leads", inset: 0 },
  no_owner: { text: "no owner", inset: 0 },
  unknown: { text: "not known", inset: 0, hatched: true },
};

const clock = (ms) => moment(ms).slice(11);

// took shows a duration, also a short one.
export function took(ms) {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  return ms < 60000 ? `${Math.floor(ms / 100) / 10} s` : age(ms);
}

const leads = (span) => span.state === "leading";
const end = (span, now) => span.until ?? now;

// reasons are why a term ended, where that is no handover.
const reasons = {
  expired: (span) => span.renewed ? `the lease of ${span.id} ran out, not renewed since ${clock(span.renewed)}` : `the lease of ${span.id} ran out`,
  deleted: () => "the key was deleted",
  overwritten: () => "the key was overwritten",
  replaced: () => "another term followed",
  unknown: () => "what came between is not known",
};

// laneFor returns the lane of a candidate, which it makes if there is none yet.
function laneFor(lanes, name) {
  if (!lanes.has(name)) lanes.set(name, { name, parts: [] });
  return lanes.get(name);
}

// lanesOf returns the lanes of spans from a moment on, and behind them the times without a leader and those that are not
// known. Candidates of the roster wait since they have said so. Nothing is known of the others while they do not lead.
export function lanesOf(spans, from, now, roster = []) {
  const lanes = new Map();
  const behind = [];
  if (spans.length === 0 || spans[0].since > from) behind.push({ kind: "unknown", from, to: spans[0]?.since ?? now, note: "nothing is known of the time before" });
  for (const span of spans) {
    const to = end(span, now);
    if (to < from) continue;
    const lasted = `for ${took(to - span.since)}, from ${moment(span.since)}`;
    if (leads(span)) {
      const { parts } = laneFor(lanes, span.id);
      const why = reasons[span.ended]?.(span);
      parts.push({ kind: "leads", from: span.since, to: span.renewed ?? to, note: `${span.id} led ${lasted}${why ? `: ${why}` : ""}` });
      if (span.renewed) parts.push({ kind: "lapses", from: span.renewed, to, note: `${span.id} did not renew its lease of ${took(to - span.renewed)}` });
    } else if (span.state === "pending") {
      laneFor(lanes, span.id).parts.push({ kind: "pending", from: span.since, to, note: `${span.id} held the key and did not lead, ${lasted}` });
      behind.push({ kind: "vacant", from: span.since, to, note: `nobody led ${lasted}` });
    } else {
      const kind = span.state === "unknown" ? "unknown" : "vacant";
      behind.push({ kind, from: span.since, to, note: `${kind === "unknown" ? "it is not known who led" : "nobody led"} ${lasted}` });
    }
  }
  for (const c of roster) {
    const { parts } = laneFor(lanes, c.id);
    const since = Math.max(c.since, parts.at(-1)?.to ?? 0);
    if (since < now) parts.push({ kind: "waits", from: since, to: now, note: `${c.id} waits since ${moment(since)}` });
  }
  return { lanes: [...lanes.values()], behind };
}

// vacancies returns the times in which no lane leads. Nothing is known of the time before the first part.
export function vacancies(lanes, from, now) {
  const parts = lanes.flatMap((lane) => lane.parts);
  const behind = [];
  let led = Math.max(from, Math.min(...parts.map((part) => part.from)));
  const terms = parts.filter((part) => part.kind === "leads" || part.kind === "lapses").sort((a, b) => a.from - b.from);
  for (const part of [...terms, { from: now }]) {
    if (part.from > led) behind.push({ kind: "vacant", from: led, to: part.from });
    led = Math.max(led, part.to ?? now);
  }
  return behind;
}

// tonesOf gives each name one of the colours, by itself as far as no other has it.
function tonesOf(names) {
  const taken = new Set();
  const tone = new Map();
  for (const name of [...names].sort()) {
    let n = [...name].reduce((sum, c) => (sum * 31 + c.codePointAt(0)) >>> 0, 7) % tones;
    for (let i = 0; i < tones && taken.has(n); i++) n = (n + 1) % tones;
    taken.add(n);
    tone.set(name, n);
  }
  return tone;
}

const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800].map((s) => s * 1000);

function svg(tag, properties, ...children) {
  const el = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(properties)) el.setAttribute(name, value);
  el.append(...children);
  return el;
}

let pictures = 0;

// Picture is the picture in an element, whose whole width it takes.
export class Picture {
  constructor(place) {
    this.place = place;
    this.hatch = `hatch${pictures++}`;
    this.svg = svg("svg", { role: "img" });
    this.key = document.createElement("p");
    this.key.className = "key";
    place.classList.add("past-picture");
    place.append(this.svg, this.key);
    new ResizeObserver(() => this.again?.()).observe(place);
  }

  // draw draws lanes and what is behind them, from a moment on. The label says the same in a sentence.
  draw({ lanes, behind }, from, to, label) {
    this.again = () => this.draw({ lanes, behind }, from, to, label);
    const width = this.place.clientWidth;
    if (width === 0) return; // it is not shown
    const tone = tonesOf(lanes.map((lane) => lane.name));
    const shared = lanes.length - mostLanes + 1;
    const rows = lanes.length <= mostLanes ? lanes.map((lane) => ({ name: lane.name, lanes: [lane] })) :
      [{ name: `${shared} others`, lanes: lanes.slice(0, shared) }, ...lanes.slice(shared).map((lane) => ({ name: lane.name, lanes: [lane] }))];
    const bottom = Math.max(1, rows.length) * laneHeight;
    const x = (ms) => Math.min(width, Math.max(0, (ms - from) / (to - from) * width));
    const used = new Set();
    const bar = (part, y, height, tone, least, who) => {
      used.add(part.kind);
      const { inset, hatched } = kinds[part.kind];
      const begin = x(part.from);
      const wide = Math.max(least, x(part.to ?? to) - begin);
      const high = (height - 2 * inset) * (part.share ?? 1);
      const at = { x: Math.min(begin, width - wide), y: y + height - inset - high, width: wide, height: high };
      all.push(svg("rect", { ...at, class: `${part.kind} ${tone}` }, svg("title", {}, part.note ?? [who, kinds[part.kind].text].filter(Boolean).join(" "))));
      if (hatched) all.push(svg("rect", { ...at, class: "hatched", fill: `url(#${this.hatch})` }));
    };
    const seen = (part) => (part.to ?? to) >= from && part.from <= to;
    const all = [this.defs(), ...this.axis(from, to, width, bottom, x)];
    for (const part of behind) {
      if (seen(part) && (part.kind === "unknown" || (part.to ?? to) - part.from >= shortest)) bar(part, 0, bottom, "", 2);
    }
    rows.forEach((row, i) => {
      const y = (i + 1) * laneHeight - barHeight - 2;
      for (const lane of row.lanes) {
        for (const part of lane.parts.filter(seen)) bar(part, y, barHeight, `tone${tone.get(lane.name)}`, 1.5, lane.name);
      }
      all.push(svg("text", { x: 2, y: y - 4, class: `lane tone${tone.get(row.name)}` }, row.name));
    });
    this.svg.setAttribute("width", width);
    this.svg.setAttribute("height", bottom + axisHeight);
    this.svg.setAttribute("aria-label", label);
    this.svg.replaceChildren(...all);
    this.key.replaceChildren(...Object.entries(kinds).filter(([kind]) => used.has(kind)).flatMap(([kind, { text, inset, hatched }]) => {
      const at = { x: 0, y: inset, width: 18, height: barHeight - 2 * inset };
      const item = document.createElement("span");
      item.append(svg("svg", { width: 18, height: barHeight, "aria-hidden": "true" }, svg("rect", { ...at, class: kind }),
        ...hatched ? [svg("rect", { ...at, class: "hatched", fill: `url(#${this.hatch})` })] : []), text);
      return [item, " "];
    }));
  }

  // defs has the hatch over what is not certain.
  defs() {
    return svg("defs", {}, svg("pattern", { id: this.hatch, width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      svg("rect", { width: 2.5, height: 5, class: "gap" })));
  }

  axis(from, to, width, bottom, x) {
    const step = steps.find((s) => (to - from) / s * 76 <= width) ?? steps.at(-1);
    const zone = new Date(to).getTimezoneOffset() * 60000;
    const all = [svg("path", { class: "axis", d: `M0 ${bottom}.5H${width}` })];
    for (let at = Math.ceil((from - zone) / step) * step + zone; at < to; at += step) {
      const text = step < 60000 ? clock(at) : step < 86400000 ? clock(at).slice(0, 5) : moment(at).slice(5, 10);
      all.push(svg("path", { class: "axis", d: `M${x(at).toFixed(1)} 0V${bottom + 4}` }));
      if (x(at) > 24 && x(at) < width - 24) all.push(svg("text", { x: x(at), y: bottom + 16, class: "tick" }, text));
    }
    return all;
  }
}
