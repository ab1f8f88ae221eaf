/* Numbers and times for people. */

export function bytes(n) {
  if (!Number.isFinite(n) || n < 0) return '–';
  if (n < 1024) return `${n} B`;
  const units = ['KB', 'MB', 'GB', 'TB', 'PB'];
  let unit = -1;
  do {
    n /= 1024;
    unit++;
  } while (n >= 1023.95 && unit < units.length - 1);
  return `${n < 9.95 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

/* "42 s", "7 min", "3 h", "5 d": one unit, so that a column of them is quiet. */
export function age(seconds) {
  if (!Number.isFinite(seconds)) return '–';
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86400)} d`;
}

/* How long something took: "3 ms", "1.25 s", "2 min 5 s". */
export function duration(seconds) {
  if (!Number.isFinite(seconds) || seconds < 0) return '';
  if (seconds < 0.0995) return `${(seconds * 1000).toFixed(seconds < 0.00995 ? 1 : 0)} ms`;
  if (seconds < 9.995) return `${seconds.toFixed(2)} s`;
  if (seconds < 60) return `${seconds.toFixed(0)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
}

export function percent(fraction) {
  if (!Number.isFinite(fraction)) return '–';
  const value = fraction * 100;
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} %`;
}

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hourCycle: 'h23',
});
const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

/* Seconds since 1970, or an ISO 8601 text without a zone (the service's clock, UTC). */
export function toDate(when) {
  if (typeof when === 'number') return when > 0 ? new Date(when * 1000) : null;
  if (!when) return null;
  const date = new Date(/Z|[+-]\d\d:?\d\d$/.test(when) ? when : `${when}Z`);
  return Number.isNaN(date.getTime()) ? null : date;
}

export function timeOfDay(when) {
  const date = toDate(when);
  return date ? clock.format(date) : '';
}

export function dateAndTime(when) {
  const date = toDate(when);
  return date ? day.format(date) : 'never';
}

/* "a", "b" and 3 more */
export function plural(n, one, many = `${one}s`) {
  return `${n} ${n === 1 ? one : many}`;
}

/* Control characters that a terminal would obey, and those that turn text around, made visible. */
export function visible(text) {
  return String(text).replace(
    /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (c) => (c === '\r' ? '' : c < ' ' ? String.fromCharCode(0x2400 + c.charCodeAt(0)) : '�'),
  );
}

/* Size as the specification of a sandbox writes it ("512m") -> bytes, or NaN. */
export function parseSize(text) {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*$/i.exec(text ?? '');
  return match ? Number(match[1]) * 1024 ** ' kmgt'.indexOf(match[2].toLowerCase() || ' ') : NaN;
}
