// Times and ages, as the command prints them.

// moment shows a time in ms, in the zone of this browser.
export function moment(ms) {
  const t = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}

// recent is moment without the date of today.
export function recent(ms, now) {
  const [day, time] = moment(ms).split(" ");
  return moment(now).startsWith(day) ? time : `${day} ${time}`;
}

// midnight returns when the day of a moment began, in the zone of this browser. A day may have 23 or 25 hours.
export const midnight = (ms) => new Date(ms).setHours(0, 0, 0, 0);

// age shows a duration in ms as two units at most.
export function age(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s}s`;
  if (s < 3600) return `${Math.floor(s / 60)}m${s % 60}s`;
  if (s < 86400) return `${Math.floor(s / 3600)}h${Math.floor((s % 3600) / 60)}m`;
  return `${Math.floor(s / 86400)}d${Math.floor((s % 86400) / 3600)}h`;
}
