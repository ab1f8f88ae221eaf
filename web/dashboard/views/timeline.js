/* Events as pairs: an action and what became of it (pure). */

const RISKS = { 0: 'low risk', 1: 'medium risk', 2: 'high risk' };

/* What an action is about, in one text: its command, path, address ... */
export function subject(event) {
  const args = event.args ?? {};
  const first =
    args.command ??
    args.code ??
    args.path ??
    args.url ??
    args.browser_actions ??
    args.content ??
    args.name ??
    event.message ??
    '';
  return event.action === 'edit' && args.command ? `${args.command} ${args.path ?? ''}` : String(first);
}

const isAction = (event) => typeof event.action === 'string';

/* The numbers beside an entry: { exit, seconds, risk, failed }. */
export function marksOf({ action, observation }) {
  const metadata = observation?.extras?.metadata ?? {};
  const exit =
    Number.isInteger(metadata.exit_code) && metadata.exit_code >= 0 ? metadata.exit_code : undefined;
  const between =
    action && observation
      ? (Date.parse(`${observation.timestamp}Z`) - Date.parse(`${action.timestamp}Z`)) / 1000
      : NaN;
  return {
    exit,
    seconds: metadata.duration ?? (between >= 0 ? between : undefined),
    risk: RISKS[action?.args?.security_risk],
    failed: observation?.observation === 'error' || observation?.success === false || exit > 0,
  };
}

/* Entries { id, action, observation } by number; an observation belongs to the action it names. */
export class Timeline {
  entries = new Map();
  first = Infinity;
  last = -1;

  /* The entry that is new or has changed. */
  add(event) {
    this.first = Math.min(this.first, event.id);
    this.last = Math.max(this.last, event.id);
    if (isAction(event)) return this.#at(event.id, { action: event });
    const cause = Number.isInteger(event.cause) && event.cause >= 0 ? event.cause : event.id;
    return this.#at(cause, { observation: event });
  }

  #at(id, part) {
    const entry = { ...this.entries.get(id), id, ...part };
    this.entries.set(id, entry);
    return entry;
  }

  /* In order, those that have all the words. */
  select(words) {
    const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
    return [...this.entries.values()]
      .sort((a, b) => a.id - b.id)
      .filter((entry) => {
        const text = wanted.length ? textOf(entry) : '';
        return wanted.every((word) => text.includes(word));
      });
  }
}

function textOf({ action, observation }) {
  return [
    action?.action,
    action && subject(action),
    action?.args?.thought,
    observation?.observation,
    observation?.content,
  ]
    .filter(Boolean)
    .join('\n')
    .toLowerCase();
}
