/* Terminals of a sandbox: one tab for each shell session; they come back by themselves and go on where
 * they broke off. */
import { h, icon, replace, setText } from '../base/dom.js';
import { childOf } from '../base/wait.js';
import { isAbort } from '../api/client.js';
import { getHand, sendHand, terminalPath } from '../api/service.js';
import { keepSocket } from '../api/socket.js';
import { ICONS } from '../parts/icons.js';
import { complain } from '../parts/remarks.js';
import { failure, showState, skeleton, stateMark } from '../parts/state.js';
import { theme } from '../parts/theme.js';

const READABLE = 'tendon.readable';
const TOUCH_KEYS = [
  ['Esc', '\x1b'],
  ['Tab', '\t'],
  ['Ctrl+C', '\x03'],
  ['Ctrl+D', '\x04'],
  ['↑', '\x1b[A'],
  ['↓', '\x1b[B'],
  ['←', '\x1b[D'],
  ['→', '\x1b[C'],
  ['|', '|'],
  ['/', '/'],
  ['-', '-'],
];

let emulator = null;

/* The emulator, loaded at first use; an error says what this build lacks. */
async function loadEmulator() {
  if (emulator) return emulator;
  try {
    /* Styles first: cells are measured when a terminal is opened. */
    await new Promise((resolve, reject) => {
      document.head.append(
        h('link', { rel: 'stylesheet', href: '/dashboard/terminal.css', onload: resolve, onerror: reject }),
      );
    });
    emulator = await import('/dashboard/terminal.js');
    return emulator;
  } catch {
    const answer = await fetch('/dashboard/terminal.js', { method: 'HEAD' }).catch(() => null);
    throw new Error(
      answer?.status === 404
        ? 'This build of the service has no terminal: xterm.js was not installed when it was built (apt-get install node-xterm, then build again).'
        : 'The terminal could not be loaded.',
    );
  }
}

export async function terminalView(place, context) {
  const { id, signal } = context;
  replace(place, skeleton(3));
  try {
    const [module, { sessions }] = await Promise.all([loadEmulator(), getHand(id, '/v1/sessions', signal)]);
    if (!signal.aborted) new Terminals(place, module, context, sessions);
  } catch (error) {
    if (!isAbort(error) && !signal.aborted)
      replace(
        place,
        failure(error, () => terminalView(place, context)),
      );
  }
}

class Terminals {
  #open = new Map(); /* session name -> { tab, pane, life, terminal } */
  #current = '';

  constructor(place, module, { id, signal, route }, sessions) {
    this.module = module;
    this.id = id;
    this.signal = signal;
    this.tabs = h('div.tabs', { role: 'tablist', 'aria-label': 'Shell sessions' });
    this.mark = stateMark();
    this.readable = localStorage.getItem(READABLE) === 'on';
    const reader = h(
      'button.quiet.small',
      { type: 'button', 'aria-pressed': String(this.readable), title: 'Lines of the terminal are read out' },
      'Screen reader',
    );
    reader.addEventListener('click', () => this.#setReadable(!this.readable, reader));
    this.panes = h('div.pane', { role: 'tabpanel' });
    replace(
      place,
      h(
        'section.card.terminals',
        { 'aria-label': 'Terminal' },
        h(
          'div.bar',
          this.tabs,
          h(
            'button.quiet.small',
            {
              type: 'button',
              'aria-label': 'New session',
              title: 'New session',
              onclick: () => this.#make(),
            },
            icon(ICONS.plus),
          ),
          reader,
          h('span', { role: 'status' }, this.mark),
        ),
        this.panes,
        h(
          'div.touch-keys',
          { role: 'group', 'aria-label': 'Keys' },
          TOUCH_KEYS.map(([label, text]) =>
            h(
              'button.small',
              { type: 'button', onclick: () => this.#open.get(this.#current)?.terminal.type(text) },
              label,
            ),
          ),
        ),
      ),
    );
    this.tabs.addEventListener('keydown', (event) => this.#move(event));
    theme.on('change', () => this.#each((one) => one.terminal.setDark(theme.dark)), signal);
    signal.addEventListener('abort', () => this.#each((one) => one.terminal.dispose()));

    const names = sessions.map((session) => session.name);
    if (!names.includes('main')) names.unshift('main');
    for (const name of names) this.#addTab(name);
    const wanted = route.query.get('session');
    this.show(names.includes(wanted) ? wanted : 'main');
  }

  #each(fn) {
    for (const one of this.#open.values()) if (one.terminal) fn(one);
  }

  #addTab(name) {
    const tab = h(
      'button',
      {
        type: 'button',
        role: 'tab',
        'aria-selected': 'false',
        tabindex: '-1',
        onclick: () => this.show(name),
      },
      name,
    );
    this.tabs.append(tab);
    this.#open.set(name, { tab });
  }

  #move(event) {
    const names = [...this.#open.keys()];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    this.show(names[(names.indexOf(this.#current) + step + names.length) % names.length], { focusTab: true });
  }

  async #make() {
    const names = [...this.#open.keys()];
    let number = 2;
    while (names.includes(`shell-${number}`)) number++;
    try {
      await sendHand(this.id, 'POST', '/v1/sessions', { name: `shell-${number}` });
      this.#addTab(`shell-${number}`);
      this.show(`shell-${number}`);
    } catch (error) {
      complain(error, 'New session');
    }
  }

  show(name, { focusTab = false } = {}) {
    this.#current = name;
    for (const [key, one] of this.#open) {
      const now = key === name;
      one.tab.setAttribute('aria-selected', now);
      one.tab.tabIndex = now ? 0 : -1;
      if (one.surface) one.surface.hidden = !now;
    }
    const one = this.#open.get(name);
    if (!one.terminal) this.#attach(name, one);
    one.terminal.fit();
    showState(this.mark, one.state, one.text);
    if (focusTab) one.tab.focus();
    else one.terminal.focus();
  }

  #attach(name, one) {
    one.surface = h('div.surface', { 'data-session': name, 'data-keys': 'own' });
    this.panes.append(one.surface);
    let send = () => {};
    let offset; /* of the next byte; undefined before the first hello */
    const set = (state, text) => {
      Object.assign(one, { state, text });
      if (this.#current === name) showState(this.mark, state, text);
    };
    const sayJson = (message) => send(JSON.stringify(message));
    one.terminal = this.module.openTerminal(one.surface, {
      dark: theme.dark,
      readable: this.readable,
      still: matchMedia('(prefers-reduced-motion: reduce)').matches,
      label: `Terminal ${name}. F6 leaves it.`,
      input: (bytes) => send(bytes),
      resized: (columns, rows) => sayJson({ type: 'resize', columns, rows }),
      leave: () => one.tab.focus(),
    });
    one.surface.terminal = one.terminal;
    set('connecting', 'connecting');
    const life = childOf(this.signal);
    keepSocket(
      this.id,
      () => terminalPath(this.id, name, offset),
      {
        opened: (say) => {
          send = say;
          set('live', 'connected');
          sayJson({ type: 'resize', ...one.terminal.size });
        },
        text: (message) => {
          if (message.type === 'hello') {
            if (offset !== undefined && message.offset > offset) one.terminal.say('[some output was lost]');
            offset = message.offset;
          } else if (message.type === 'end') {
            one.terminal.say(`[the shell has ended with ${message.exit_code}; a new one starts]`);
          }
        },
        bytes: (bytes) => {
          offset += bytes.length;
          one.terminal.write(bytes);
        },
        closed: () => {
          send = () => {};
          return false;
        },
        lost: (wait) => set('lost', wait > 1000 ? 'reconnecting' : 'connecting'),
      },
      life.signal,
    ).catch((error) => {
      set('error', 'not connected');
      one.terminal.say(`[${error.message}]`);
    });
  }

  #setReadable(on, button) {
    this.readable = on;
    localStorage.setItem(READABLE, on ? 'on' : 'off');
    button.setAttribute('aria-pressed', String(on));
    this.#each((one) => one.terminal.setReadable(on));
  }
}
