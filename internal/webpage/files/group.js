// The shards of a group: a bar for each member, and who owned how many since the page's program has watched the group.

import { make } from "./dom.js";
import { moment } from "./times.js";

// kinds are the states of the shards in a bar, as ui.css draws them.
const kinds = {
  works: "worked on",
  not_begun: "not begun: granted, and the work has not begun",
  waits: "waiting: granted, until the work of another member has ended",
  leaving: "in release: granted to another member, when the work here has ended",
  gone: "gone: the owner is gone, and they are to be granted to another",
  no_owner: "no owner",
};
const short = (kind) => ["works", "no_owner"].includes(kind) ? "" : kinds[kind].split(":")[0];

const shards = (n) => n === 1 ? "1 shard" : `${n} shards`;

// owned returns how many shards are granted to a member.
export const owned = (m) => (m.works || 0) + (m.not_begun || 0) + (m.waits || 0) + (m.gone || 0);

export class Shards {
  // ask is called with the name of an action and the member whose button is clicked.
  constructor(place, ask) {
    Object.assign(this, { place, ask, actions: [] });
    this.list = make("ul");
    this.key = make("p", { className: "key" });
    place.append(make("h3", { textContent: "Shards" }), this.list, this.key);
  }

  // show shows how a group shares its shards; undefined: it is not known, or no group is shown.
  show(sharing) {
    this.place.hidden = !sharing?.shards;
    const text = JSON.stringify([sharing, this.actions]);
    if (this.place.hidden || this.shown === text) return; // nothing under the mouse is made anew
    this.shown = text;
    const used = new Set();
    const all = [...sharing.members, ...sharing.no_owner ? [{ no_owner: sharing.no_owner }] : []];
    const most = Math.max(1, ...all.map((m) => owned(m) + (m.leaving || 0) + (m.no_owner || 0)));
    const held = document.activeElement?.dataset.member; // the button that is focused
    this.list.replaceChildren(...all.map((m) => this.member(m, most, used)));
    if (sharing.others) this.list.append(make("li", { textContent: `and ${sharing.others} more members` }));
    this.key.replaceChildren(...Object.keys(kinds).filter((kind) => used.has(kind)).flatMap((kind) =>
      [make("span", {}, make("i", { className: `shard ${kind}` }), kinds[kind]), " "]));
    if (held) this.list.querySelector(`[data-member="${CSS.escape(held)}"]`)?.focus();
  }

  member(m, most, used) {
    const bar = make("div", { className: "shards" });
    const words = [];
    for (const kind of Object.keys(kinds)) {
      if (!m[kind]) continue;
      used.add(kind);
      const part = make("i", { className: `shard ${kind}`, title: `${shards(m[kind])} ${kinds[kind]}` });
      part.style.width = `${100 * m[kind] / most}%`;
      bar.append(part);
      if (short(kind)) words.push(`${m[kind]} ${short(kind)}`);
    }
    const head = make("p", {}, make("b", { className: "name", textContent: m.id ?? "no owner" }));
    if (m.state && m.state !== "lives") head.append(make("b", { className: `member ${m.state}`, textContent: m.state }));
    for (const [state, action, text] of [["lives", "drain-member", "Drain…"], ["drained", "undrain-member", "Undrain"]]) {
      if (m.state !== state || !this.actions.includes(action)) continue;
      const button = make("button", { type: "button", textContent: text, onclick: () => this.ask(action, m) });
      button.setAttribute("aria-label", `${text} ${m.id}`);
      button.dataset.member = m.id;
      head.append(button);
    }
    const text = [[shards(m.no_owner ?? owned(m)), ...words].join(", "), m.numbers, m.more].filter(Boolean).join("; ");
    return make("li", {}, head, bar, make("p", { className: "more", textContent: text }));
  }
}

// movesOf returns the lanes of the members of a group: how many shards each owned, from the steps of the group and what each owns
// now.
export function movesOf(sharing, now) {
  const has = new Map(sharing.members.map((m) => [m.id, owned(m)]));
  has.set("", sharing.no_owner || 0);
  const intervals = [];
  let to = now;
  for (const step of [...sharing.steps || []].reverse()) {
    if (!step.moved) continue;
    if (step.at < to) intervals.push({ from: step.at, to, has: new Map(has) });
    to = Math.min(to, step.at);
    const add = (id, n) => has.set(id ?? "", (has.get(id ?? "") || 0) + n);
    add(step.to, -step.moved);
    add(step.from, step.moved);
  }
  intervals.push({ from: sharing.since, to, has });
  const most = Math.max(1, ...intervals.flatMap(({ has }) => [...has.values()]));
  const lanes = new Map(sharing.members.map((m) => [m.id, { name: m.id, parts: [] }]));
  for (const { from, to, has } of intervals.reverse()) {
    for (const [id, n] of has) {
      if (n <= 0) continue;
      const name = id || "no owner";
      if (!lanes.has(name)) lanes.set(name, { name, parts: [] });
      const { parts } = lanes.get(name);
      const last = parts.at(-1);
      if (last?.n === n && last.to === from) last.to = to;
      else parts.push({ kind: id ? "owns" : "no_owner", n, share: n / most, from, to });
    }
  }
  for (const { name, parts } of lanes.values()) {
    for (const part of parts) part.note = `${name}: ${shards(part.n)} from ${moment(part.from)} until ${moment(part.to)}`;
  }
  return { lanes: [...lanes.values()], behind: [] };
}
