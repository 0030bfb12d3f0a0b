// The panel of the playground: the candidates with what can be done to them, and the story of what
// happens. The server sends everything that it shows.

import { Feed } from "./feed.js";
import { Picture, vacancies } from "./picture.js";
import { Tour } from "./tour.js";

// make returns an element with properties and children.
function make(tag, properties, ...children) {
  const el = Object.assign(document.createElement(tag), properties);
  el.append(...children);
  return el;
}

function set(el, text) {
  if (el.textContent !== text) el.textContent = text;
}

const links = [
  ["works", "works"], ["slow", "is slow"], ["cut", "is cut"], ["held", "passes nothing"],
  ["held-up", "passes nothing to the server"], ["held-down", "passes nothing from the server"],
];

// stillness is set where the settings of the system ask for less motion.
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

// The picture has at least and at most so much of the past, in ms.
const leastShown = 15000;
const mostShown = 60000;

let view;          // the last message
let ahead = 0;     // the host's clock less that of this browser, in ms
const cards = new Map(); // by the ID of the candidate

const failure = make("p", { className: "failure", hidden: true });
failure.setAttribute("role", "alert");
const banner = make("div", { className: "broken", hidden: true });
banner.setAttribute("role", "alert");
const newest = make("p", { className: "newest" });
const storyText = make("span");
const storyLink = make("a", { target: "_blank", rel: "noopener", textContent: "Why this is safe" });
newest.setAttribute("role", "status");
newest.append(storyText, " ", storyLink);
const seats = make("div", { className: "seats" });
const checks = make("p", { className: "checks" });
const stories = make("ol", { className: "stories" });
const slider = make("input", { type: "range", step: 500, id: "lease" });
const chosen = make("output", { htmlFor: "lease" });
const drawn = make("div");
const tour = new Tour(ask);
const restart = button("Restart the server", () => ask({ do: "restart" }));
const outage = button("Stop the server", () => ask({ do: view.up ? "outage" : "up" }));
const erase = button("Delete the key", () => ask({ do: "delete" }));

slider.addEventListener("input", () => set(chosen, seconds(slider.value)));
// All candidates start again for a new lease, so the slider first comes to rest.
let settling;
slider.addEventListener("change", () => {
  clearTimeout(settling);
  settling = setTimeout(() => ask({ do: "lease", lease: Number(slider.value) }), 500);
});

document.getElementById("panel").append(
  banner, failure, tour.el, newest, drawn, seats,
  make("div", { className: "all" }, restart, outage, erase, make("label", {}, "Lease ", slider, " ", chosen)),
  checks, make("h2", { textContent: "What has happened" }), stories,
);
const picture = new Picture(drawn);

function button(text, onclick) {
  return make("button", { type: "button", textContent: text, onclick });
}

function seconds(ms) {
  return `${(Math.max(0, ms) / 1000).toFixed(1)} s`;
}

// ask asks the server to do something, and shows why it was not done.
async function ask(request) {
  let error = "";
  try {
    const response = await fetch("api/do", {
      method: "POST", body: JSON.stringify(request), signal: AbortSignal.timeout(30000),
      headers: { "Content-Type": "application/json" },
    });
    if (!response.ok) error = (await response.json()).error;
  } catch (e) {
    error = `The playground does not answer: ${e.message}. If other pages of it are in view in this browser, close some: a browser opens six connections to one host at most.`;
  }
  failure.hidden = error === "";
  failure.textContent = error;
}

// card makes what is shown of a candidate.
function card(id) {
  const c = {
    state: make("span", { className: "is" }), bar: make("div", { className: "bar" }), time: make("p", { className: "time" }),
    token: make("p", { className: "token" }), shards: make("p", { className: "token" }), stored: make("dd"), refused: make("dd"),
    link: make("select", {}, ...links.map(([value, text]) => new Option(text, value))),
    resign: button("Resign", () => ask({ do: "resign", id })),
    kill: button("Kill", () => ask({ do: c.is.state === "killed" ? "start" : "kill", id })),
    freeze: button("Freeze", () => ask({ do: c.is.frozen ? "thaw" : "freeze", id })),
  };
  c.link.addEventListener("change", () => ask({ do: c.link.value === "works" ? "restore" : c.link.value, id }));
  c.facts = make("dl", {},
    make("dt", { textContent: "Writes stored" }), c.stored, make("dt", { textContent: "Writes refused" }), c.refused);
  c.el = make("section", { className: "seat" },
    make("h2", {}, make("span", { className: "name", textContent: id }), " ", c.state),
    make("div", { className: "track" }, c.bar), c.time, c.token, c.shards, c.facts,
    make("label", {}, "Its link ", c.link), make("p", { className: "buttons" }, c.resign, c.kill, c.freeze));
  c.el.setAttribute("aria-label", `Candidate ${id}`);
  seats.append(c.el);
  return c;
}

// left returns the part of the lease that is left, and what to say of it.
function left(is) {
  const passed = Date.now() + ahead - is.at;
  const ms = (is.left || is.patience || 0) - passed;
  const share = Math.min(1, Math.max(0, ms) / view.lease);
  switch (is.state) {
    case "leader": case "fenced": return [share, ms > 0 ? `Its lease ends in ${seconds(ms)}` : "Its lease is over"];
    case "pending": return [share, ms > 0 ? `It may lead in ${seconds(ms)}` : "It may lead"];
    case "candidate": return is.patience ? [share, ms > 0 ? `It waits for ${seconds(ms)} more` : "It waits no more"] : [0, "It has seen no leader"];
    default: return [0, ""];
  }
}

// paint draws who led, waited and was out of action, as the candidates themselves report it.
function paint() {
  const now = Date.now() + ahead;
  const lanes = view.seats.map((is) => ({ name: is.id, parts: is.past }));
  const first = Math.min(...lanes.flatMap((lane) => lane.parts).map((part) => part.from));
  const from = now - Math.min(mostShown, Math.max(leastShown, now - first));
  const led = view.seats.find((is) => is.state === "leader" && !is.frozen);
  picture.draw({ lanes, behind: vacancies(lanes, from, now) }, from, now,
    `What the candidates did in the last ${Math.round((now - from) / 1000)} s. ${led ? `${led.id} leads.` : "Nobody leads."} What has happened is listed below.`);
}

// words are how a page shows the states of a candidate.
const words = { leader: "leads", candidate: "waits", pending: "is pending", fenced: "is fenced", ended: "has ended", killed: "does not run", starts: "starts" };

function draw(is) {
  const c = cards.get(is.id) || card(is.id);
  cards.set(is.id, c);
  c.is = is;
  const shown = is.frozen ? "frozen" : is.state;
  c.el.className = `seat ${shown}`;
  set(c.state, is.frozen ? "is frozen" : words[is.state]);
  set(c.token, is.token ? `Token ${is.token}` : "No token yet");
  set(c.shards, is.shards ? `Shards ${is.shards.join(", ")}` : "No shards");
  set(c.stored, String(is.stored));
  set(c.refused, String(is.refused));
  c.refused.classList.toggle("some", is.refused > 0);
  if (document.activeElement !== c.link) c.link.value = is.link;
  c.el.classList.toggle("faulty", is.link !== "works");
  const runs = is.state !== "killed";
  c.resign.disabled = is.state !== "leader" || is.frozen;
  c.freeze.disabled = !runs;
  c.freeze.hidden = !view.freezes;
  set(c.kill, runs ? "Kill" : "Start");
  set(c.freeze, is.frozen ? "Thaw" : "Freeze");
}

function take(v) {
  view = v;
  ahead = v.now - Date.now();
  for (const is of v.seats) draw(is);
  tour.take(v);
  set(outage, v.up ? "Stop the server" : "Start the server");
  restart.disabled = erase.disabled = !v.up;
  if (document.activeElement !== slider) {
    Object.assign(slider, { min: v.least, max: v.most, value: v.lease });
    set(chosen, seconds(v.lease));
  }
  const last = v.stories.at(-1);
  newest.hidden = !last;
  if (last && newest.at !== last.n) {
    newest.at = last.n;
    set(storyText, last.text);
    storyLink.href = last.link;
    stories.replaceChildren(...v.stories.toReversed().map((s) => {
      const at = new Date(s.at);
      return make("li", {}, make("time", { dateTime: at.toISOString(), textContent: at.toLocaleTimeString() }), s.text, " ",
        make("a", { href: s.link, target: "_blank", rel: "noopener", textContent: "Why" }));
    }));
  }
  banner.hidden = v.broken.length === 0;
  if (banner.children.length !== v.broken.length) {
    banner.replaceChildren(...v.broken.map((text) => make("p", { textContent: `A promise is broken: ${text}` })));
  }
  set(checks, `${v.checks.toLocaleString("en")} checks of the promises so far, ${v.broken.length === 0 ? "none" : v.broken.length} broken.`);
}

// run lets the bars run out, by the clock of the host.
let ran = 0;
let painted = 0;
function run(at) {
  requestAnimationFrame(run);
  if (!view || (stillness.matches && at - ran < 1000)) return;
  ran = at;
  if (at - painted > 100) {
    painted = at;
    paint();
  }
  for (const c of cards.values()) {
    const [share, text] = left(c.is);
    c.bar.style.transform = `scaleX(${share})`;
    set(c.time, text);
  }
}
requestAnimationFrame(run);

new Feed("api/panel", take, () => {});
