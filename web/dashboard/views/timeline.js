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

/* What analyzers said of an action before it was carried out: { risk, decision, text }; the text names who said it, by
 * which rule, of which part. */
export function verdictOf(action) {
  const { risk, decision, findings } = action?.verdict ?? {};
  if (typeof risk !== 'string') return undefined;
  const text = (Array.isArray(findings) ? findings : [])
    .map(({ analyzer, rule, part, text: why }) =>
      [analyzer, rule && `rule ${rule}`, why, part].filter(Boolean).join(': '),
    )
    .join('\n');
  return { risk: `${risk} risk`, decision, text };
}

const isAction = (event) => typeof event.action === 'string';

/* What stands beside an entry: { exit, seconds, risk, verdict, failed }; the risk is that of the verdict, or else what the
 * agent says itself. */
export function marksOf({ action, observation }) {
  const metadata = observation?.extras?.metadata ?? {};
  const exit =
    Number.isInteger(metadata.exit_code) && metadata.exit_code >= 0 ? metadata.exit_code : undefined;
  const between =
    action && observation
      ? (Date.parse(`${observation.timestamp}Z`) - Date.parse(`${action.timestamp}Z`)) / 1000
      : NaN;
  const verdict = verdictOf(action);
  return {
    exit,
    verdict,
    seconds: metadata.duration ?? (between >= 0 ? between : undefined),
    risk: verdict?.risk ?? RISKS[action?.args?.security_risk],
    failed: observation?.observation === 'error' || observation?.success === false || exit > 0,
  };
}

/* Pictures that an observation brought along: data URLs of kinds that hold no script. */
const PICTURE = /^data:(image\/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=\s]+)$/;

export function picturesOf(observation) {
  const extras = observation?.extras ?? {};
  const urls = Array.isArray(extras.image_urls) ? [...extras.image_urls] : [];
  if (observation?.observation === 'browse') urls.push(extras.screenshot);
  return urls.flatMap((url) => {
    const [, type, base64] = PICTURE.exec(typeof url === 'string' ? url : '') ?? [];
    return type ? [{ type, base64 }] : [];
  });
}

function diffLines(mark, text) {
  const lines = text ? text.replace(/\n$/, '').split('\n') : [];
  return lines.map((line) => mark + line);
}

/* An edit as lines of a diff: what the hand says has changed, or else what was asked for; "" for none. */
export function diffOf(action, observation) {
  const diff = observation?.extras?.diff;
  if (typeof diff === 'string' && diff) return diff;
  const { old_str: before, new_str: after, file_text: whole } = action?.args ?? {};
  if (action?.action !== 'edit') return '';
  return [...diffLines('-', before), ...diffLines('+', after ?? whole)].join('\n');
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
    verdictOf(action)?.text,
    observation?.observation,
    observation?.content,
  ]
    .filter(Boolean)
    .join('\n')
    .toLowerCase();
}
