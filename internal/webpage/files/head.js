// The head of the page: the connection, the servers of the bucket, what doctor has found, and since when what the page shows is not
// up to date.

import { $, closes, make } from "./dom.js";
import { age, moment, recent } from "./times.js";


export class Head {
  // uncordon is called with the name whose button is clicked.
  constructor(now, uncordon) {
    this.now = now;
    this.uncordon = uncordon;
    this.uncordons = false; // the page may ask for it
    this.cordoned = [];
    this.server = ""; // as the banner names it
    this.since = 0; // when what is shown was last up to date, by the server's clock; 0: not known
    closes($("doctor"));
    setInterval(() => this.tick(), 1000);
  }

  show(head) {
    this.server = head.server ? `${head.lost ? "last " : ""}server ${head.server}` : "";
    $("connection").replaceChildren(...(head.facts || []).map(({ name, text, why }) => make("li", { className: text ? "" : "unknown", title: why || "" },
      `${name} `, make("span", { className: "name", textContent: text || "unknown" }))));
    const replicas = head.replicas || [];
    $("servers").replaceChildren(...replicas.map((r) => {
      const what = r.unknown ? "unknown" : r.fault || (r.leads ? replicas.length > 1 ? "leads the stream" : "keeps the bucket" : "");
      return make("li", { className: r.unknown ? "unknown" : r.fault ? "fault" : "", title: r.name }, make("span", { className: "name", textContent: r.name }), what ? ` ${what}` : "");
    }));
    this.cordoned = head.cordoned || [];
    this.showCordoned();
    const findings = head.findings || [];
    const grave = ["critical", "unknown", "warning", "note"].map((s) => [findings.filter((f) => f.severity === s).length, s]).filter(([n]) => n > 0);
    $("doctor").hidden = !head.checked || grave.length === 0 && replicas.some((r) => r.fault); // it looks less often
    $("doctor").className = grave[0]?.[1] || "";
    $("doctor").firstElementChild.textContent = "doctor: " + (grave.map(([n, s]) => `${n} ${s}${n > 1 && (s === "warning" || s === "note") ? "s" : ""}`).join(", ") || "nothing found");
    $("findings").replaceChildren(...findings.map((f) => make("li", {},
      make("b", { className: f.severity, textContent: f.severity }), ` ${f.text}`, ...f.advice ? [make("p", { className: "advice", textContent: `→ ${f.advice}` })] : [])));
    if (findings.length === 0) $("findings").replaceChildren(make("li", {}, "Nothing was found by the checks of the bucket's settings, its limits and its servers. natsleader doctor makes more."));
  }

  // showCordoned names who is cordoned, each with a button where the page may take it off.
  showCordoned() {
    const names = this.cordoned.map((name, i) => {
      if (!this.uncordons) return i > 0 ? `, ${name}` : name;
      const button = make("button", { type: "button", textContent: "uncordon", onclick: () => this.uncordon(name) });
      button.setAttribute("aria-label", `uncordon ${name}`);
      return make("span", {}, ` ${name} `, button);
    });
    $("cordoned").replaceChildren(...names.length > 0 ? ["cordoned: ", ...names] : []);
  }

  // fail shows that what is shown is not up to date, and since when; an empty text: it is.
  fail(text, since) {
    this.since = since;
    const when = since ? ` since ${recent(since, this.now())}` : "";
    const of = this.server && text ? ` (${this.server})` : "";
    const all = text && `Not up to date${when}${of}: ${text}`;
    $("stale").hidden = text === "";
    if ($("trouble").textContent !== all) $("trouble").textContent = all;
    document.body.classList.toggle("stale", text !== "");
    this.tick();
  }

  tick() {
    $("stale-age").textContent = this.since ? age(this.now() - this.since) : "";
    $("stale-age").title = this.since ? moment(this.since) : "";
  }
}
