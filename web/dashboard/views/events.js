/* The events of a sandbox as a timeline, live: each action with what became of it. */
import { h, reconcile, replace, setText } from '../base/dom.js';
import { bytes, dateAndTime, duration, plural, timeOfDay, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { eventsPath, getEvents } from '../api/service.js';
import { follow } from '../api/stream.js';
import { boxes } from '../api/boxes.js';
import { complain } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';
import { diffOf, marksOf, picturesOf, subject, Timeline } from './timeline.js';

const PAGE = 200;
const MOST_OUTPUT = 20000; /* characters shown before one asks for all */

export function eventsView(place, { id, signal }) {
  const timeline = new Timeline();
  const list = h('ol.timeline', { 'aria-label': 'Events, oldest first' });
  const search = h('input.search', { type: 'search', placeholder: 'Search', 'aria-label': 'Search events' });
  const count = h('span.muted.small', { role: 'status' });
  const earlier = h('button.quiet', { type: 'button', hidden: true }, 'Show earlier events');
  const card = h('div.card', skeleton(4));
  let following = true;
  let settled = false; /* what comes from now on is news */
  let drawing = false;

  const draw = () => {
    drawing = false;
    const some = timeline.select(search.value);
    setText(
      count,
      search.value
        ? `${some.length} of ${plural(timeline.entries.size, 'entry', 'entries')}`
        : plural(timeline.entries.size, 'entry', 'entries'),
    );
    earlier.hidden = !(timeline.first > 0 && timeline.entries.size);
    if (some.length) {
      reconcile(
        list,
        some,
        (entry) => entry.id,
        (entry) => makeEntry(entry, settled),
        updateEntry,
      );
      if (!list.isConnected) replace(card, list);
    } else if (settled) {
      replace(
        card,
        h(
          'div.empty',
          timeline.entries.size
            ? h('p', 'No event has these words.')
            : [
                h('h2', 'Nothing has happened yet'),
                h('p', 'Every action of an agent, and what became of it, appears here as it happens.'),
              ],
        ),
      );
    }
    if (following && settled) scrollTo({ top: document.documentElement.scrollHeight });
  };
  const drawSoon = () => {
    if (!drawing) setTimeout(draw, 30);
    drawing = true;
  };

  earlier.addEventListener('click', async () => {
    const from = Math.max(0, timeline.first - PAGE);
    try {
      const page = await getEvents(id, { from, limit: timeline.first - from }, signal);
      const height = document.documentElement.scrollHeight;
      following = false;
      page.events.forEach((event) => timeline.add(event));
      timeline.first = from;
      settled = false;
      draw();
      settled = true;
      scrollBy({ top: document.documentElement.scrollHeight - height });
    } catch (error) {
      complain(error);
    }
  });
  search.addEventListener('input', draw);
  addEventListener(
    'scroll',
    () => {
      following = document.documentElement.scrollHeight - innerHeight - scrollY < 60;
    },
    { signal, passive: true },
  );

  replace(place, h('div.row', search, count, earlier), card);
  const settle = () => {
    settled = true;
    drawSoon();
  };
  follow(
    () => eventsPath(id, timeline.last < 0 ? { last: PAGE } : { from: timeline.last + 1 }),
    {
      opened: () => setTimeout(settle, 400),
      event: ({ event, data }) => {
        if (event !== 'message') return;
        timeline.add(JSON.parse(data));
        drawSoon();
      },
    },
    { signal, hurry: boxes },
  ).catch((error) => {
    if (!isAbort(error) && !signal.aborted) replace(card, failure(error));
  });
}

/* --- one entry ----------------------------------------------------------------------------------------- */

function makeEntry(entry, isNew) {
  const parts = { time: h('time'), kind: h('b'), subject: h('code'), marks: h('span.marks'), output: null };
  const row = h(
    'li',
    { class: isNew ? 'event new' : 'event', 'data-event': entry.id },
    parts.time,
    h('span.what', parts.kind, parts.subject),
    parts.marks,
  );
  row.parts_ = parts;
  return row;
}

const RISK_BADGES = { 'unknown risk': 'wait', 'medium risk': 'wait', 'high risk': 'bad' };

function updateEntry(row, entry) {
  if (row.shown_ === entry) return; /* the timeline makes a new object for every change */
  row.shown_ = entry;
  const { action, observation } = entry;
  const { exit, seconds, risk, verdict, failed } = marksOf(entry);
  const { time, kind, subject: about, marks } = row.parts_;
  const event = action ?? observation;
  setText(time, timeOfDay(event.timestamp));
  time.dateTime = event.timestamp ?? '';
  time.title = dateAndTime(event.timestamp);
  setText(kind, action?.action ?? observation.observation);
  setText(
    about,
    visible(action ? subject(action) : firstLine(observation.content ?? observation.message ?? '')),
  );
  row.classList.toggle(
    'pending',
    !observation &&
      [
        'run',
        'run_ipython',
        'browse',
        'browse_interactive',
        'read',
        'write',
        'edit',
        'call_tool_mcp',
      ].includes(action?.action),
  );
  replace(
    marks,
    risk && h('span', { class: `badge ${RISK_BADGES[risk] ?? ''}`, title: visible(verdict?.text ?? '') }, risk),
    verdict &&
      verdict.decision !== 'allow' &&
      h(
        'span',
        { class: `badge ${verdict.decision === 'block' ? 'bad' : 'wait'}` },
        verdict.decision === 'block' ? 'blocked' : 'asked',
      ),
    verdict?.text && h('span.badge', { title: visible(verdict.text) }, visible(firstLine(verdict.text))),
    exit !== undefined && h('span', { class: exit ? 'badge bad' : 'badge good' }, `exit ${exit}`),
    exit === undefined && failed && h('span.badge.bad', 'failed'),
    seconds >= 0.0001 && h('span.badge', duration(seconds)),
  );
  showOutput(row, action, observation);
}

const firstLine = (text) => String(text).split('\n', 1)[0].slice(0, 300);

function showOutput(row, action, observation) {
  const texts = [
    action?.args?.thought && ['Thought', action.args.thought],
    action?.action === 'write' && ['Content', action.args.content],
    ['Change', diffOf(action, observation), fillDiff],
    observation?.content && ['Output', observation.content],
  ].filter((part) => part && part[1]);
  const pictures = picturesOf(observation);
  const wasOpen = row.querySelector('details')?.open;
  row.querySelector('details')?.remove();
  if (!texts.length && !pictures.length) return;
  const size = texts.reduce((sum, [, text]) => sum + text.length, 0);
  const words = [
    ...texts.map(([label]) => label),
    ...(pictures.length ? [plural(pictures.length, 'picture')] : []),
  ];
  const details = h('details', h('summary', `${words.join(', ')} · ${bytes(size)}`));
  /* Made when it is opened: a thousand outputs would burden the page. */
  const fill = () =>
    details.open &&
    details.childElementCount === 1 &&
    details.append(
      ...texts.map(([label, text, put = setText]) => outputBlock(label, text, texts.length > 1, put)),
      ...pictures.map(pictureOf),
    );
  details.addEventListener('toggle', fill);
  details.open = Boolean(wasOpen);
  fill();
  row.append(details);
}

/* The page's policy knows no data URLs; a blob is given back as soon as it is drawn. */
function pictureOf({ type, base64 }, number) {
  const picture = h('img', { alt: `Picture ${number + 1}` });
  let content;
  try {
    content = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  } catch {
    return h('p.muted', 'A picture that cannot be read.');
  }
  const address = URL.createObjectURL(new Blob([content], { type }));
  const done = () => URL.revokeObjectURL(address);
  picture.addEventListener('load', done);
  picture.addEventListener('error', () => {
    done();
    picture.replaceWith(h('p.muted', 'A picture that cannot be read.'));
  });
  picture.src = address;
  return picture;
}

const DIFF_KINDS = { '+': 'added', '-': 'gone', '@': 'place' };

/* Lines in the colours of a diff; the mark at their beginning says the same. */
function fillDiff(pre, text) {
  const head = /^(---|\+\+\+) /;
  replace(
    pre,
    text
      .split('\n')
      .map((line) => h('span', { class: head.test(line) ? 'place' : DIFF_KINDS[line[0]] }, `${line}\n`)),
  );
}

function outputBlock(label, text, labelled, put) {
  const pre = h('pre', { tabindex: '0', 'aria-label': label });
  put(pre, visible(text.slice(0, MOST_OUTPUT)));
  const all =
    text.length > MOST_OUTPUT &&
    h(
      'button.small',
      {
        type: 'button',
        onclick: () => {
          put(pre, visible(text));
          all.remove();
        },
      },
      `Show all ${bytes(text.length)}`,
    );
  return h('div', labelled && h('span.small.muted', label), pre, all);
}
