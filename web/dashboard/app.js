/* The dashboard: who is signed in, which view is shown, and the frame around it.
 *
 * A view is a function (place, context) that fills the element `place`. Everything it starts ends with
 * context.signal; context has the route, the person (`me`), and `title(text)`. */
import { h, icon, replace, setText } from './base/dom.js';
import { go, parseRoute, routeTo } from './base/route.js';
import { boxes } from './api/boxes.js';
import { session, takeTicket } from './api/session.js';
import { getMe } from './api/service.js';
import { closeDialogs } from './parts/dialog.js';
import { ICONS } from './parts/icons.js';
import { openPalette } from './parts/palette.js';
import { announce, remark, setPage } from './parts/remarks.js';
import { shareLink } from './parts/share.js';
import { listenForKeys, showHelp } from './parts/shortcuts.js';
import { showState, stateMark, stateText } from './parts/state.js';
import { theme } from './parts/theme.js';
import { boxView, BOX_TABS } from './views/box.js';
import { createView } from './views/create.js';
import { keysView } from './views/keys.js';
import { listView } from './views/list.js';
import { poolsView } from './views/pools.js';
import { securityView } from './views/security.js';
import { serviceView } from './views/service.js';
import { signInView } from './views/sign-in.js';

const PLACES = [
  { name: 'sandboxes', label: 'Sandboxes', icon: ICONS.boxes, key: 's' },
  { name: 'pools', label: 'Pools', icon: ICONS.pools, key: 'p', view: poolsView, admin: true },
  { name: 'keys', label: 'Keys', icon: ICONS.keys, key: 'k', view: keysView, admin: true },
  { name: 'security', label: 'Security', icon: ICONS.security, key: 'y', view: securityView },
  { name: 'service', label: 'Service', icon: ICONS.service, key: 'i', view: serviceView },
];

/* Nothing in the page makes markup of text; xterm.js's screen reader mode adds spaces to a text that way. */
window.trustedTypes?.createPolicy('default', { createHTML: (text) => text.replaceAll('<', '&lt;') });

function viewOf({ parts }) {
  const [first, second] = parts;
  if (first === 'new') return createView;
  if (first === 'sandboxes' && second) return boxView;
  return PLACES.find((place) => place.name === first)?.view ?? listView;
}

/* --- the frame ------------------------------------------------------------------------------------ */

function frame(me, signal) {
  const places = PLACES.filter((place) => !place.admin || me.admin);
  const links = places.map((place) =>
    h('a', { href: routeTo([place.name]), 'data-place': place.name }, icon(place.icon), place.label),
  );
  const linkState = h('span.link-state', { role: 'status' });
  const mark = stateMark();
  const word = h('span.word');
  const themeButton = h('button.quiet', { type: 'button', onclick: () => theme.next() });
  const banner = h(
    'div.banner',
    { role: 'status', hidden: true },
    h('span'),
    h('button.small', { type: 'button', onclick: () => boxes.emit('now') }, 'Try now'),
  );
  const main = h('main#main', { tabindex: '-1' });
  mark.append(word);
  linkState.append(mark);

  const showTheme = () => {
    const names = { auto: 'as the system', light: 'light', dark: 'dark' };
    if (themeButton.dataset.choice === theme.choice) return;
    themeButton.dataset.choice = theme.choice;
    replace(themeButton, icon(ICONS[{ auto: 'auto', light: 'sun', dark: 'moon' }[theme.choice]]));
    themeButton.setAttribute('aria-label', `Colours: ${names[theme.choice]}. Change`);
    themeButton.title = `Colours: ${names[theme.choice]}`;
  };
  theme.on('change', showTheme, signal);
  showTheme();

  const showLink = () => {
    const { state, retryAt } = boxes.link;
    const seconds = Math.ceil((retryAt - Date.now()) / 1000);
    mark.dataset.state = state;
    setText(word, { connecting: 'Connecting', live: 'Live', lost: 'Offline' }[state]);
    linkState.title = {
      connecting: 'Connecting to the service',
      live: 'Connected to the service',
      lost: 'Not connected',
    }[state];
    banner.hidden = state !== 'lost';
    setText(
      banner.firstElementChild,
      seconds > 1
        ? `Connection to the service lost. Trying again in ${seconds} s; what you see may be old.`
        : 'Connection to the service lost. Trying again now.',
    );
  };
  boxes.on('link', showLink, signal);
  boxes.on('back', () => announce('Connected to the service again'), signal);
  const ticker = setInterval(() => boxes.link.state === 'lost' && showLink(), 500);
  signal.addEventListener('abort', () => clearInterval(ticker));
  showLink();

  const tool = (label, drawing, onclick, hint) =>
    h('button.quiet', { type: 'button', 'aria-label': label, title: hint ?? label, onclick }, icon(drawing));
  setPage(
    h(
      'a.skip',
      {
        href: '#main',
        onclick: (event) => {
          event.preventDefault();
          main.focus();
        },
      },
      'Skip to the content',
    ),
    h(
      'header.top',
      h(
        'a.brand',
        { href: '#/sandboxes', 'aria-label': 'Tendon: sandboxes' },
        h('img', { src: '/dashboard/icon.svg', alt: '' }),
        h('span', 'Tendon'),
      ),
      h('nav.places', { 'aria-label': 'Places' }, links),
      h('span.space'),
      linkState,
      tool(
        'Find or do something',
        ICONS.search,
        () => openPalette(commands(places)),
        'Find or do something (Ctrl+K)',
      ),
      tool('Keyboard help', ICONS.help, () => showHelp(keys(places)), 'Keyboard (?)'),
      themeButton,
      tool('Sign out', ICONS.leave, () => session.forget('You have signed out.')),
    ),
    banner,
    main,
  );
  listenForKeys(keys(places), signal);
  return { main, links };
}

function keys(places) {
  return [
    ['Ctrl+k', 'find a sandbox or a command', () => openPalette(commands(places)), { anywhere: true }],
    ['?', 'this help', () => showHelp(keys(places))],
    ['n', 'new sandbox', () => go(['new'])],
    ['/', 'search in this view', () => document.querySelector('main input[type="search"]')?.focus()],
    ...places.map((place) => [
      `g ${place.key}`,
      `go to ${place.label.toLowerCase()}`,
      () => go([place.name]),
    ]),
    ['t', 'light, dark or as the system', () => theme.next()],
  ];
}

function commands(places) {
  const { parts } = parseRoute(location.hash);
  const here = parts[0] === 'sandboxes' && boxes.get(parts[1]);
  return [
    ...(here
      ? BOX_TABS.map((tab) => ({
          label: tab.label,
          hint: here.name || here.id,
          run: () => go(['sandboxes', here.id, tab.name]),
        }))
      : []),
    ...boxes.list.map((box) => ({
      label: box.name || box.id,
      hint: `${stateText(box)} ${box.name ? box.id : ''}`,
      run: () => go(['sandboxes', box.id]),
    })),
    { label: 'New sandbox', hint: 'n', run: () => go(['new']) },
    ...places.map((place) => ({ label: place.label, hint: `g ${place.key}`, run: () => go([place.name]) })),
    { label: 'Keyboard help', hint: '?', run: () => showHelp(keys(places)) },
    { label: 'Change colours', hint: 't', run: () => theme.next() },
    { label: 'Sign in on another device…', run: shareLink },
    { label: 'Sign out', run: () => session.forget('You have signed out.') },
  ];
}

/* --- signed in, or not ------------------------------------------------------------------------------ */

function runApp(me) {
  const life = new AbortController();
  const { main, links } = frame(me, life.signal);
  let current = null;

  const show = () => {
    const route = parseRoute(location.hash);
    /* Another tab of the same sandbox is the view's own business. */
    const same = `${viewOf(route).name}/${route.parts[0] === 'sandboxes' ? (route.parts[1] ?? '') : ''}`;
    for (const link of links) {
      if (link.dataset.place === (route.parts[0] ?? 'sandboxes')) link.setAttribute('aria-current', 'page');
      else link.removeAttribute('aria-current');
    }
    if (current?.same === same && current.context.onRoute) {
      current.context.route = route;
      current.context.onRoute(route);
      return;
    }
    current?.life.abort();
    current = { same, life: new AbortController() };
    main.className = '';
    current.context = {
      route,
      me,
      signal: current.life.signal,
      title: (text) => (document.title = text ? `${text} – Tendon` : 'Tendon'),
    };
    replace(main);
    scrollTo(0, 0);
    viewOf(route)(main, current.context);
    if (document.activeElement === document.body || !document.activeElement?.isConnected)
      main.focus({ preventScroll: true });
  };
  addEventListener(
    'hashchange',
    () => {
      closeDialogs();
      show();
    },
    { signal: life.signal },
  );
  life.signal.addEventListener('abort', () => current?.life.abort());
  session.on(
    'end',
    (why) => {
      life.abort();
      closeDialogs();
      boxes.clear();
      start(why);
    },
    life.signal,
  );
  boxes.run(life.signal).catch((error) => session.key && remark(error.message, { bad: true }));
  show();
}

async function start(note = '') {
  /* Who is signed in stays so: a link of somebody else's must not change that unnoticed. */
  const ticket = takeTicket();
  let me = null;
  if (session.key) {
    try {
      me = await getMe();
    } catch (error) {
      if (error.status !== 401 && error.status !== 403) {
        /* A service that is just starting again still knows the key. */
        setTimeout(() => start(note), 1500);
        setPage(h('p.plain', { role: 'status' }, `${error.message} Trying again…`));
        return;
      }
      note ||= error.message;
    }
  }
  if (me) runApp(me);
  else signInView({ note, ticket, done: runApp });
}

start();
