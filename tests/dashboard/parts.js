/* The pure parts of the page, tested in the browser that runs them: window.partsResult lists what failed. */
import * as format from '../../web/dashboard/base/format.js';
import { EventParser } from '../../web/dashboard/base/sse.js';
import { parseRoute, routeTo } from '../../web/dashboard/base/route.js';
import { backoff } from '../../web/dashboard/base/wait.js';
import { encodePath, join, parentOf, segmentOf, showPath } from '../../web/dashboard/api/files.js';
import { linePath, niceBytes, niceTop, spanFor } from '../../web/dashboard/parts/chart.js';
import { cpuPoints } from '../../web/dashboard/parts/meter.js';
import { score } from '../../web/dashboard/parts/palette.js';
import { addressOf } from '../../web/dashboard/views/browser.js';
import { parseVariables, wishOf } from '../../web/dashboard/views/create.js';
import { textOf } from '../../web/dashboard/views/editor.js';
import { selectBoxes } from '../../web/dashboard/views/list.js';
import { safeUrl } from '../../web/dashboard/views/ports.js';
import { diffOf, marksOf, picturesOf, subject, Timeline } from '../../web/dashboard/views/timeline.js';

const failures = [];
function same(found, expected, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  if (a !== b) failures.push(`${what}: expected ${b}, found ${a}`);
}
function throws(fn, text, what) {
  try {
    fn();
    failures.push(`${what}: nothing was thrown`);
  } catch (error) {
    if (!error.message.includes(text)) failures.push(`${what}: ${error.message}`);
  }
}

/* --- numbers and times --------------------------------------------------------------------------- */
same(
  [0, 1023, 1024, 10 * 1024, 1048575, 1 << 20, 3.5 * 2 ** 30, -1, NaN].map(format.bytes),
  ['0 B', '1023 B', '1.0 KB', '10 KB', '1.0 MB', '1.0 MB', '3.5 GB', '–', '–'],
  'bytes',
);
same(
  [0, 59.9, 60, 3599, 3600, 86400, -5, NaN].map(format.age),
  ['0 s', '59 s', '1 min', '59 min', '1 h', '1 d', '0 s', '–'],
  'age',
);
same(
  [0.0004, 0.05, 0.25, 9.99, 59, 125, 7260].map(format.duration),
  ['0.4 ms', '50 ms', '0.25 s', '9.99 s', '59 s', '2 min 5 s', '2 h 1 min'],
  'duration',
);
same([0.005, 0.5, 2].map(format.percent), ['0.5 %', '50 %', '200 %'], 'percent');
same(format.toDate('2025-01-01T00:00:00.5').getTime(), 1735689600500, 'a time without a zone is UTC');
same([format.toDate(0), format.toDate('nonsense')], [null, null], 'no time');
same(format.visible('a\x1b[31mb\r\n\tc\u202egpj'), 'a␛[31mb\n\tc�gpj', 'control characters');
same(
  ['512m', ' 2G ', '10', '1.5g', 'x'].map(format.parseSize),
  [536870912, 2147483648, 10, 1610612736, null],
  'sizes',
);

/* --- streams ----------------------------------------------------------------------------------------- */
const parser = new EventParser();
same(parser.push('event: sandbox\nid: 7\ndata: {"a":'), [], 'half an event');
same(
  parser.push('\ndata: 1}\n\n: beat\n\ndata: x\r\n\r\n'),
  [
    { event: 'sandbox', data: '{"a":\n1}', id: '7' },
    { event: 'message', data: 'x', id: '7' },
  ],
  'events',
);
same(
  [0, 1, 4, 20].map((n) => Math.round(backoff(n, 0.5))),
  [500, 1000, 8000, 15000],
  'pauses grow to a limit',
);

/* --- addresses and paths --------------------------------------------------------------------------- */
same(parseRoute(routeTo(['sandboxes', 'a b/c'], { path: '/x y&z' })).parts, ['sandboxes', 'a b/c'], 'route');
same(parseRoute(routeTo(['s'], { path: '/x y&z' })).query.get('path'), '/x y&z', 'query of a route');
same(parseRoute('#/%E0%A4%A').parts, ['%E0%A4%A'], 'a broken address');
same(encodePath('/a b//c#?/'), '/a%20b/c%23%3F', 'encoded path');
same([join('/', 'x'), join('/a', 'x'), parentOf('/a/b'), parentOf('/a')], ['/x', '/a/x', '/a', '/'], 'paths');
same(segmentOf({ name: 'caf?', name_base64: btoa('caf\xe9') }), '%63%61%66%e9', 'a name that is no UTF-8');
same(showPath('/a%20b/%63%e9'), '/a b/c%e9', 'such a path for people');
same(
  ['javascript:alert(1)', 'data:text/html,x', 'https://x.example/'].map(safeUrl),
  ['', '', 'https://x.example/'],
  'links',
);

same(
  ['localhost:8000/x', 'https://a', 'about:blank', '/workspace/a.html'].map(addressOf),
  ['http://localhost:8000/x', 'https://a', 'about:blank', '/workspace/a.html'],
  'what people type',
);

/* --- lists ------------------------------------------------------------------------------------------- */
const list = [
  { id: 'a', name: 'web 10', state: 'running', created: 2 },
  { id: 'b', name: 'web 9', state: 'paused', created: 1 },
  { id: 'c', state: 'running', created: 3, last_action: { text: 'run: ls' } },
];
same(
  selectBoxes(list, { sort: 'name' }).map((box) => box.id),
  ['c', 'b', 'a'],
  'sorted by name, numbers as numbers',
);
same(
  selectBoxes(list, {}).map((box) => box.id),
  ['c', 'a', 'b'],
  'youngest first',
);
same(
  selectBoxes(list, { words: 'run ls' }).map((box) => box.id),
  ['c'],
  'words',
);
same(
  selectBoxes(list, { state: 'paused' }).map((box) => box.id),
  ['b'],
  'state',
);
same(
  [
    score('New sandbox', 'sand'),
    score('New sandbox', 'new'),
    score('New sandbox', 'xyz'),
    score('New sandbox', ''),
  ],
  [3, 4, 0, 1],
  'palette',
);

/* --- wishes ------------------------------------------------------------------------------------------ */
same(parseVariables(' A=1\n\nB=x=y '), { A: '1', B: 'x=y' }, 'variables');
throws(() => parseVariables('=x'), 'NAME=value', 'variables');
same(
  wishOf({ name: ' web ', cpus: '2', ttl: '10', memory: '' }),
  { name: 'web', cpus: 2, ttl: 600, wait: 0 },
  'wish',
);
same(
  wishOf({ network: 'allow', allow: ' pypi.org\nGET http://a.test/x, @git\n', ask: 'on' }),
  { network: 'allow', allow: ['pypi.org', 'GET http://a.test/x', '@git'], ask: true, wait: 0 },
  'wish for a network',
);

/* --- charts ------------------------------------------------------------------------------------------ */
same(
  cpuPoints([
    { time: 1, cpu_seconds: 1 },
    { time: 1.1, cpu_seconds: 1 },
    { time: 3, cpu_seconds: 2 },
    { time: 4, cpu_seconds: 0 },
    { time: 5, cpu_seconds: null },
  ]),
  [{ at: 3, value: 0.5 }],
  'processors between samples',
);
same(
  linePath(
    [
      { at: 0, value: 1 },
      { at: 50, value: 0 },
      { at: 100, value: 2 },
    ],
    100,
    100,
    1,
    60,
  ),
  'M0.0 0.0L150.0 100.0L300.0 0.0',
  'line',
);
same(
  linePath(
    [
      { at: 0, value: 1 },
      { at: 100, value: 1 },
    ],
    100,
    100,
    1,
    60,
  ).match(/M/g).length,
  2,
  'a gap breaks the line',
);
same(
  [
    niceBytes([3 << 20], 1),
    niceBytes([], 1 << 20),
    spanFor([], 9),
    spanFor([{ at: 0 }], 100),
    spanFor([{ at: 0 }], 5000),
  ],
  [4 << 20, 1 << 20, 60, 120, 600],
  'scales',
);
same([niceTop([0.3], 0.1), niceTop([], 1), niceTop([7], 0.1)], [0.5, 1, 10], 'scale');

/* --- events ------------------------------------------------------------------------------------------ */
const timeline = new Timeline();
timeline.add({
  id: 4,
  action: 'run',
  args: { command: 'make', security_risk: 2 },
  timestamp: '2025-01-01T00:00:00',
});
timeline.add({
  id: 5,
  observation: 'run',
  cause: 4,
  content: 'done',
  extras: { metadata: { exit_code: 2 } },
  timestamp: '2025-01-01T00:00:01.5',
});
timeline.add({ id: 6, observation: 'error', content: 'no' });
same(
  timeline.select('').map((entry) => entry.id),
  [4, 6],
  'an observation joins its action',
);
same(marksOf(timeline.entries.get(4)), { exit: 2, seconds: 1.5, risk: 'high risk', failed: true }, 'marks');
same(timeline.select('MAKE don').length, 1, 'search');
const judged = {
  action: {
    args: { command: 'x', security_risk: 0 },
    verdict: {
      risk: 'high',
      decision: 'block',
      findings: [{ analyzer: 'policy', rule: 'exfiltration', part: 'args.command: x', text: 'sends', risk: 'high' }],
    },
  },
};
same(
  [marksOf(judged).risk, marksOf(judged).verdict.decision, marksOf(judged).verdict.text],
  ['high risk', 'block', 'policy: rule exfiltration: sends: args.command: x'],
  'a verdict goes before what the agent says',
);
same(marksOf({ action: { args: {}, verdict: 'odd' } }).verdict, undefined, 'a verdict that is none');
same(
  picturesOf({
    observation: 'browse',
    extras: {
      screenshot: 'data:image/png;base64,AA==',
      image_urls: ['data:image/svg+xml;base64,AA==', 'https://elsewhere.example/x.png', 7, 'data:image/gif;base64,BB=='],
    },
  }),
  [
    { type: 'image/gif', base64: 'BB==' },
    { type: 'image/png', base64: 'AA==' },
  ],
  'pictures: none that holds a script or comes from elsewhere',
);
const edit = { action: 'edit', args: { old_str: 'a\nb\n', new_str: 'c' } };
same(diffOf(edit, { extras: { diff: '--- f' } }), '--- f', 'the diff of the hand');
same(diffOf(edit, undefined), '-a\n-b\n+c', 'the diff of what was asked for');
same(diffOf({ action: 'edit', args: { file_text: 'x' } }, {}), '+x', 'a new file');
same(marksOf({ observation: { observation: 'run_ipython', success: false } }).failed, true, 'a failed cell');
same(subject({ action: 'edit', args: { command: 'view', path: '/x' } }), 'view /x', 'subject');
same(
  [
    textOf(new TextEncoder().encode('ä').buffer),
    textOf(new Uint8Array([0xff]).buffer),
    textOf(new Uint8Array([0]).buffer),
  ],
  ['ä', null, null],
  'text or not',
);

window.partsResult = failures;
