// Elements of the document.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties, ...children) {
  const el = Object.assign(document.createElement(tag), properties);
  el.append(...children);
  return el;
}

// closes lets a click elsewhere and Escape close a part that hangs from its summary.
export function closes(details) {
  document.addEventListener("click", (e) => { if (!details.contains(e.target)) details.open = false; });
  details.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !details.open) return;
    details.open = false;
    details.firstElementChild.focus();
  });
}
