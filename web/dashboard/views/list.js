/* All sandboxes, live. */
import { h, icon, reconcile, replace, setText } from '../base/dom.js';
import { age, bytes, dateAndTime, percent, plural, visible } from '../base/format.js';
import { noteRoute, routeTo } from '../base/route.js';
import { every } from '../base/wait.js';
import { boxes } from '../api/boxes.js';
import { ICONS } from '../parts/icons.js';
import { lifeItems } from '../parts/life.js';
import { menuButton } from '../parts/menu.js';
import { meter } from '../parts/meter.js';
import { showState, skeleton, stateMark, stateText } from '../parts/state.js';

const byText = (of) => (a, b) => of(a).localeCompare(of(b), undefined, { numeric: true });
const byNumber = (of) => (a, b) => (of(a) || 0) - (of(b) || 0);
const titleOf = (box) => box.name || box.id;

const COLUMNS = [
  { name: 'name', label: 'Name', order: byText(titleOf) },
  { name: 'state', label: 'State', order: byText((box) => box.state) },
  { name: 'image', label: 'Image', order: byText((box) => `${box.runtime} ${box.image ?? ''}`) },
  { name: 'created', label: 'Age', number: true, order: byNumber((box) => -box.created) },
  { name: 'cpu', label: 'CPU', number: true, order: byNumber((box) => meter.get(box.id)?.cpu) },
  { name: 'memory', label: 'Memory', number: true, order: byNumber((box) => meter.get(box.id)?.memory) },
  { name: 'action', label: 'Last action', order: byText((box) => box.last_action?.text ?? '') },
];
const STATES = ['running', 'starting', 'paused', 'stopped', 'error', 'missing'];

/* Which of them match the words and the state. */
export function selectBoxes(all, { words = '', state = '', sort = 'created', down = false }) {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  const text = (box) =>
    [box.id, box.name, box.session, box.image, box.runtime, box.template, box.state, box.last_action?.text]
      .filter(Boolean)
      .join(' ')
      .toLowerCase();
  const { order } = COLUMNS.find((column) => column.name === sort) ?? COLUMNS[0];
  const sign = down ? -1 : 1;
  return all
    .filter((box) => (!state || box.state === state) && wanted.every((word) => text(box).includes(word)))
    .sort((a, b) => sign * order(a, b) || byText((box) => box.id)(a, b));
}

export function listView(place, { route, signal, title }) {
  const chosen = {
    words: route.query.get('q') ?? '',
    state: route.query.get('state') ?? '',
    sort: route.query.get('sort') ?? 'created',
    down: route.query.get('down') === 'true',
  };
  const search = h('input.search', {
    type: 'search',
    placeholder: 'Filter',
    'aria-label': 'Filter sandboxes',
    value: chosen.words,
  });
  const states = h(
    'select',
    { 'aria-label': 'State' },
    h('option', { value: '' }, 'Every state'),
    STATES.map((state) => h('option', { value: state, selected: state === chosen.state }, state)),
  );
  const count = h('span.muted.small', { role: 'status' });
  const heads = COLUMNS.map((column) =>
    h(
      'th',
      { class: column.number ? 'number' : '', scope: 'col' },
      h('button', { type: 'button', onclick: () => sortBy(column.name) }, column.label),
    ),
  );
  const body = h('tbody');
  const table = h(
    'table.table.cards.boxes',
    { 'aria-label': 'Sandboxes' },
    h('thead', h('tr', heads, h('th', h('span.unseen', 'Actions')))),
    body,
  );
  const card = h('div.card', skeleton(5));
  let shown = 'skeleton';

  const showCard = (what, make) => {
    if (shown !== what) replace(card, make());
    shown = what;
  };
  const draw = () => {
    const all = boxes.list;
    if (!boxes.loaded && !all.length) return;
    const some = selectBoxes(all, chosen);
    setText(
      count,
      some.length === all.length
        ? plural(all.length, 'sandbox', 'sandboxes')
        : `${some.length} of ${plural(all.length, 'sandbox', 'sandboxes')}`,
    );
    heads.forEach((head, i) => {
      if (COLUMNS[i].name === chosen.sort)
        head.setAttribute('aria-sort', chosen.down ? 'descending' : 'ascending');
      else head.removeAttribute('aria-sort');
    });
    if (!all.length) showCard('empty', emptyState);
    else if (!some.length)
      showCard('none', () =>
        h('div.empty', h('h2', 'Nothing matches'), h('p', 'No sandbox fits these words and this state.')),
      );
    else showCard('table', () => table);
    reconcile(body, some, (box) => box.id, makeRow, updateRow);
  };
  const choose = (change) => {
    Object.assign(chosen, change);
    const query = {
      q: chosen.words,
      state: chosen.state,
      sort: chosen.sort === 'created' ? '' : chosen.sort,
      down: chosen.down || '',
    };
    noteRoute(
      ['sandboxes'],
      Object.entries(query).filter(([, value]) => value),
    );
    draw();
  };
  const sortBy = (name) => choose({ sort: name, down: chosen.sort === name && !chosen.down });

  search.addEventListener('input', () => choose({ words: search.value }));
  states.addEventListener('change', () => choose({ state: states.value }));
  title('Sandboxes');
  replace(
    place,
    h(
      'div.head',
      h('h1', 'Sandboxes'),
      count,
      h('a.button.primary', { href: '#/new' }, icon(ICONS.plus), 'New sandbox'),
    ),
    h('div.head', search, states),
    card,
  );
  boxes.on('change', draw, signal);
  draw();
  /* Numbers of the rows that are in view, and everybody's age. */
  every(
    4000,
    async () => {
      const seen = [...body.children]
        .filter((row) => {
          const { top, bottom } = row.getBoundingClientRect();
          return bottom > 0 && top < innerHeight;
        })
        .map((row) => row.dataset.id)
        .filter((id) => boxes.get(id)?.state === 'running');
      await meter.read(seen, signal);
      draw();
    },
    signal,
  );
}

function emptyState() {
  return h(
    'div.empty',
    h('h2', 'No sandboxes yet'),
    h(
      'p',
      'A sandbox is a computer of its own for an agent: a shell, files, Python, a browser. It starts in milliseconds.',
    ),
    h('p', h('a.button.primary', { href: '#/new' }, 'Make the first one')),
    h('p.small', 'or from a program:'),
    h(
      'pre',
      `curl -X POST ${location.origin}/v1/sandboxes \\\n  -H "Authorization: Bearer $TENDON_KEY" \\\n  -H "Content-Type: application/json" -d '{}'`,
    ),
  );
}

function makeRow(box) {
  const cells = {
    link: h('a', { href: routeTo(['sandboxes', box.id]) }),
    id: h('small'),
    state: stateMark(),
    image: h('td.image.clip'),
    age: h('td.number', { 'data-label': 'Age' }),
    cpu: h('td.number', { 'data-label': 'CPU' }),
    memory: h('td.number', { 'data-label': 'Memory' }),
    action: h('td.action.clip.spare.mono'),
  };
  const row = h(
    'tr',
    { 'data-id': box.id },
    h('td.main', cells.link, cells.id),
    h('td.state-cell', cells.state),
    cells.image,
    cells.age,
    cells.cpu,
    cells.memory,
    cells.action,
    h(
      'td.menu-cell.number',
      menuButton(`Actions for ${titleOf(box)}`, () => lifeItems(boxes.get(box.id) ?? box)),
    ),
  );
  row.cells_ = cells;
  return row;
}

function updateRow(row, box) {
  const cells = row.cells_;
  const image = [box.runtime, box.image].filter(Boolean).join(' · ');
  const running = box.state === 'running';
  setText(cells.link, visible(titleOf(box)));
  setText(cells.id, box.name ? box.id : '');
  showState(cells.state, box.state, stateText(box));
  cells.state.title = box.reason ?? '';
  setText(cells.image, visible(image));
  cells.image.title = image;
  setText(cells.age, age(Date.now() / 1000 - box.created));
  cells.age.title = dateAndTime(box.created);
  const used = running ? meter.get(box.id) : null;
  setText(cells.cpu, used ? percent(used.cpu) : '–');
  setText(cells.memory, used ? bytes(used.memory) : '–');
  setText(cells.action, visible(box.last_action?.text ?? ''));
  cells.action.title = box.last_action?.text ?? '';
}
