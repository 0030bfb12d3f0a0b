// A guided tour of six faults. The user causes each one, sees what comes of it in the picture, and reads why.

// Each fault says what to do to the leader, and how to undo it. It is over when another term has begun, unless it has a
// condition of its own.
const faults = [
  {
    name: "The leader is killed", button: "Kill the leader", does: "kill", undo: "start",
    before: "Its process dies and releases nothing. The others cannot know whether it is dead or slow.",
    after: (was, is) => `${is} leads. In the red time nobody did: the others waited until the whole lease of ${was} was over.`,
  },
  {
    name: "The leader is frozen", button: "Freeze the leader", does: "freeze", undo: "thaw",
    before: "Its process stops in the middle of its work, as in a long pause of a virtual machine. It does not know that it does.",
    after: (was, is) => `The lane of ${was} ends before that of ${is} begins. A lease counts from the sending of a renewal, and the others wait from receiving it. If ${was} was about to write, the guard refuses that when it goes on.`,
  },
  {
    name: "The leader is cut off", button: "Cut the leader off", does: "held", undo: "restore",
    before: "The network swallows all packets of the leader, and its process runs on.",
    after: (was, is) => `${was} could not renew, and ended its term by its own clock. Only then had ${is} waited long enough.`,
  },
  {
    name: "The server is down", button: "Stop the server", does: "outage", undo: "up",
    before: "Nobody can renew, and nobody can take the key.",
    over: (v) => !v.up && v.seats.every((is) => is.state !== "leader"),
    after: (was) => `${was} has ended its term, and no other can begin one: there is no leader without the server. It keeps what it has acknowledged.`,
  },
  {
    name: "The key is deleted", button: "Delete the key", does: "delete",
    before: "A deleted key names no leader and no lease.",
    after: (was, is) => `${was} has ended its term. ${is} leads, and has waited for the longest lease that the bucket allows, because the key did not say whose lease may be running.`,
  },
  {
    name: "The leader hands over", button: "Let it resign", does: "resign",
    before: "That is no fault: every deploy does it.",
    after: (was, is) => `${is} leads at once. The release says that ${was} has ended its work, so nobody waits.`,
  },
];

// leaderOf returns the candidate that leads, and can be asked for something.
const leaderOf = (v) => v.seats.find((is) => is.state === "leader" && !is.frozen && is.link === "works");

export class Tour {
  // ask asks the playground to do something.
  constructor(ask) {
    this.ask = ask;
    this.at = -1; // the fault; none: the tour has not begun
    this.el = document.createElement("section");
    this.el.className = "tour";
    this.el.setAttribute("aria-label", "Guided tour");
    this.title = document.createElement("h2");
    this.text = document.createElement("p");
    this.text.setAttribute("role", "status");
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.addEventListener("click", () => this.next());
    this.el.append(this.title, this.text, this.button);
  }

  // take takes a message of the playground.
  take(v) {
    this.view = v;
    this.faults = faults.filter((f) => v.freezes || f.does !== "freeze");
    const fault = this.faults[this.at];
    const leader = leaderOf(v);
    const over = fault?.over ?? (() => leader && leader.token !== this.was.token);
    if (this.was && !this.result && over(v)) {
      this.result = fault.after(this.was.id, leader?.id);
    }
    const show = (title, text, button, ready) => {
      this.el.classList.toggle("ends", Boolean(this.result));
      if (this.title.textContent !== title) this.title.textContent = title;
      if (this.text.textContent !== text) this.text.textContent = text;
      if (this.button.textContent !== button) this.button.textContent = button;
      this.button.disabled = !ready;
    };
    if (!fault) {
      show(this.at < 0 ? "" : "That was the tour", this.at < 0 ? "" : "No two terms overlapped, whatever you did.",
        this.at < 0 ? `Guided tour of ${this.faults.length} faults` : "Again", true);
      return;
    }
    const title = `${this.at + 1} of ${this.faults.length}: ${fault.name}`;
    if (this.result) show(title, this.result, this.at + 1 < this.faults.length ? "Next" : "End", true);
    else if (this.was) show(title, "Look at the picture.", "Wait…", false);
    else show(title, fault.before, fault.button, Boolean(leader));
  }

  next() {
    const fault = this.faults[this.at];
    if (fault && !this.was) {
      this.was = leaderOf(this.view);
      if (this.was) this.ask({ do: fault.does, id: this.was.id });
    } else {
      if (fault?.undo) this.ask({ do: fault.undo, id: this.was.id });
      this.at = fault ? this.at + 1 : 0;
      this.was = undefined;
      this.result = "";
    }
    this.take(this.view);
  }
}
