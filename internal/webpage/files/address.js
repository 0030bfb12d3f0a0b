// The address of a view: what the page shows stands in the fragment, so that a reload, the Back key and a link keep it.
// Nothing of it becomes part of the document but as text.

// choices are the values of those parts of a view that have few.
const choices = { by: ["", "leader", "host"], show: ["", "in-trouble", "led", "idle"], past: ["hour", "day", "week"] };

// longest is how long a value may be.
const longest = 300;

// viewOf returns the view of a fragment. It is the start view if the fragment has anything that no view has.
export function viewOf(parts, start) {
  const view = { ...start };
  for (const [name, value] of parts) {
    const damaged = value.length > longest || value.includes("\ufffd");
    if (damaged || !Object.hasOwn(start, name) || choices[name]?.includes(value) === false) return start;
    view[name] = value;
  }
  return view.group === "" ? view : { ...view, election: "" };
}

// addressOf returns the address of a view: what is not as in the start view.
export function addressOf(view, start) {
  const parts = new URLSearchParams(Object.entries(view).filter(([name, value]) => value !== start[name]));
  return parts.size > 0 ? `#${parts}` : location.pathname;
}
