/* One sandbox: its head, and a tab for each way to look at it. */
import { h, replace, setText } from '../base/dom.js';
import { age, dateAndTime, visible } from '../base/format.js';
import { go, routeTo } from '../base/route.js';
import { childOf, every } from '../base/wait.js';
import { boxes } from '../api/boxes.js';
import { isAbort } from '../api/client.js';
import { lifeActions } from '../parts/life.js';
import { networkCard } from '../parts/network.js';
import { pendingCards } from '../parts/pending.js';
import { failure, showState, skeleton, stateMark, stateText } from '../parts/state.js';
import { browserView } from './browser.js';
import { detailsView } from './details.js';
import { eventsView } from './events.js';
import { filesView } from './files.js';
import { logsView } from './logs.js';
import { portsView } from './ports.js';
import { snapshotsView } from './snapshots.js';
import { terminalView } from './terminals.js';
import { usageView } from './usage.js';

/* live: of no use unless it runs (or can be woken) */
export const BOX_TABS = [
  { name: 'terminal', label: 'Terminal', view: terminalView, live: true },
  { name: 'files', label: 'Files', view: filesView, live: true },
  { name: 'events', label: 'Events', view: eventsView },
  { name: 'browser', label: 'Browser', view: browserView, live: true },
  { name: 'ports', label: 'Ports', view: portsView, live: true },
  { name: 'usage', label: 'Usage', view: usageView },
  { name: 'logs', label: 'Logs', view: logsView },
  { name: 'snapshots', label: 'Snapshots', view: snapshotsView },
  { name: 'details', label: 'Details', view: detailsView },
];

export async function boxView(place, context) {
  const { signal } = context;
  const id = context.route.parts[1];
  if (!boxes.get(id)) {
    replace(place, h('div.card', skeleton(5)));
    try {
      await boxes.refresh(id, signal);
    } catch (error) {
      if (isAbort(error) || signal.aborted) return;
      replace(
        place,
        h('div.head', h('h1', error.status === 404 ? 'No such sandbox' : id)),
        failure(error, () => boxView(place, context)),
        h('p.row', h('a.button', { href: '#/sandboxes' }, 'All sandboxes')),
      );
      return;
    }
  }
  place.classList.add('wide');
  const head = boxHead(id, signal);
  const tabs = h(
    'nav.tabs',
    { 'aria-label': 'Views of this sandbox' },
    BOX_TABS.map((tab) => h('a', { href: routeTo(['sandboxes', id, tab.name]) }, tab.label)),
  );
  const body = h('div.box-view');
  let shown = null;

  const show = () => {
    const box = boxes.get(id);
    if (!box) return; /* the head says so */
    const tab = BOX_TABS.find((one) => one.name === context.route.parts[2]) ?? BOX_TABS[0];
    const asleep = tab.live && box.state !== 'running';
    const what = `${tab.name}/${asleep ? box.state : 'on'}`;
    if (shown?.what === what) {
      shown.context.route = context.route;
      shown.context.onRoute?.(context.route);
      return;
    }
    shown?.life.abort();
    shown = { what, life: childOf(signal) };
    shown.context = { ...context, id, onRoute: undefined, signal: shown.life.signal };
    [...tabs.children].forEach((link, i) => {
      if (BOX_TABS[i] === tab) {
        link.setAttribute('aria-current', 'page');
        tabs.scrollLeft = Math.max(0, link.offsetLeft - tabs.offsetLeft - 60);
      } else {
        link.removeAttribute('aria-current');
      }
    });
    context.title(`${tab.label} – ${box.name || id}`);
    replace(body);
    if (scrollY > 120) scrollTo(0, 0);
    if (asleep) sleeping(body, box);
    else tab.view(body, shown.context);
  };
  context.onRoute = show;
  tabs.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const links = [...tabs.children];
    links[(links.indexOf(document.activeElement) + step + links.length) % links.length].focus();
  });
  boxes.on('change', show, signal);
  replace(place, head, pendingCards(id, signal), networkCard(id, signal), tabs, body);
  show();
}

function boxHead(id, signal) {
  const name = h('h1');
  const mark = stateMark();
  const life = h('div.life', { role: 'group', 'aria-label': 'Life of this sandbox' });
  const facts = h('div.box-facts');
  const problem = h('p.note.bad', { role: 'alert', hidden: true });
  let offered = '';

  const draw = () => {
    const box = boxes.get(id);
    if (!box) {
      showState(mark, 'missing', 'deleted');
      replace(life, h('a.button', { href: '#/sandboxes' }, 'All sandboxes'));
      offered = '';
      return;
    }
    setText(name, visible(box.name || box.id));
    showState(mark, box.state, stateText(box));
    if (offered !== `${box.state} ${box.name}`) {
      const last =
        document.activeElement?.closest('.life') === life ? document.activeElement.textContent : '';
      replace(
        life,
        lifeActions(box, () => go(['sandboxes'])).map(({ label, run, danger }) =>
          h(
            'button',
            {
              type: 'button',
              class: danger ? 'danger' : '',
              onclick: async ({ currentTarget }) => {
                currentTarget.setAttribute('aria-busy', 'true');
                await run();
                currentTarget.removeAttribute('aria-busy');
              },
            },
            label,
          ),
        ),
      );
      if (last)
        ([...life.children].find((button) => button.textContent === last) ?? life.firstElementChild)?.focus();
      offered = `${box.state} ${box.name}`;
    }
    const texts = [
      box.name ? box.id : '',
      box.runtime,
      box.image,
      box.template && `template ${box.template}`,
      `${age(Date.now() / 1000 - box.created)} old`,
      box.expires && `until ${dateAndTime(box.expires)}`,
    ]
      .filter(Boolean)
      .map(visible);
    if (facts.childElementCount !== texts.length)
      replace(
        facts,
        texts.map(() => h('span')),
      );
    texts.forEach((text, i) => setText(facts.children[i], text));
    problem.hidden = !box.reason;
    setText(problem, box.reason ? `${box.cause ? `${box.cause}: ` : ''}${visible(box.reason)}` : '');
  };
  boxes.on('change', draw, signal);
  every(5000, draw, signal);
  return h('div', h('div.box-head', name, mark, life), facts, problem);
}

/* What cannot be looked at now, and what would help. */
function sleeping(body, box) {
  const wake = lifeActions(box).find(({ label }) => label === 'Resume' || label === 'Start');
  const texts = {
    starting: ['It is starting', 'This view opens by itself as soon as the sandbox runs.'],
    paused: ['It is paused', 'Its processes stand still and keep their memory.'],
    stopped: ['It is stopped', 'Its files are kept; its processes have ended.'],
    error: ['It failed', 'The reason is above. Starting it again may help.'],
    missing: ['It is missing', 'Its runtime does not know it any more. Its events can still be read.'],
  };
  const [headline, text] = texts[box.state] ?? ['It does not run', ''];
  replace(
    body,
    h(
      'div.card.empty',
      h('h2', headline),
      h('p', text),
      wake && h('button.primary', { type: 'button', onclick: wake.run }, wake.label),
    ),
  );
}
