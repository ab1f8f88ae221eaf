/* Ports inside a sandbox, to open in another tab. */
import { h, replace } from '../base/dom.js';
import { every } from '../base/wait.js';
import { isAbort } from '../api/client.js';
import { getPorts, openPort } from '../api/service.js';
import { field } from '../parts/dialog.js';
import { complain } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';

const EVERY = 4000;

/* Only what a browser opens as a page; anything else is not made a link. */
export function safeUrl(text) {
  try {
    const url = new URL(text, location.href);
    return ['http:', 'https:'].includes(url.protocol) ? url.href : '';
  } catch {
    return '';
  }
}

export function portsView(place, { id, signal }) {
  const list = h('div.card', skeleton(2));
  const form = h(
    'form.row.bottom',
    field({
      name: 'port',
      label: 'Port',
      type: 'number',
      min: 1,
      max: 65535,
      required: true,
      placeholder: '8000',
    }),
    h('button.primary', { type: 'submit' }, 'Open'),
  );
  let shown = '';

  /* The tab is opened by the click itself, else the browser takes it for an advertisement. */
  const open = async (port) => {
    const tab = window.open('about:blank', '_blank');
    if (tab) tab.opener = null;
    try {
      const { link } = await openPort(id, port);
      const safe = safeUrl(link);
      if (!safe) throw new Error('The service gave no address for that port.');
      if (tab) tab.location.replace(safe);
      else location.assign(safe);
    } catch (error) {
      tab?.close();
      complain(error, `Port ${port}`);
    }
  };
  const row = (one) =>
    h(
      'tr',
      h('td.main', h('code', String(one.port))),
      h('td', one.listening ? h('span.badge.good', 'listening') : h('span.badge', 'silent')),
      h(
        'td.number',
        h(
          'button',
          { type: 'button', onclick: () => open(one.port), 'aria-label': `Open port ${one.port}` },
          'Open',
        ),
      ),
    );
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    open(Number(form.elements.port.value));
  });
  replace(
    place,
    h(
      'p.muted',
      'A server inside the sandbox, opened through the service with an address of its own. Whoever has that address can use it for a while.',
    ),
    form,
    list,
  );
  every(
    EVERY,
    async () => {
      try {
        const { ports } = await getPorts(id, signal);
        if (JSON.stringify(ports) === shown) return;
        shown = JSON.stringify(ports);
        replace(
          list,
          ports.length
            ? h(
                'table.table',
                { 'aria-label': 'Open ports' },
                h('thead', h('tr', h('th', 'Port'), h('th', ''), h('th', ''))),
                h('tbody', ports.map(row)),
              )
            : h(
                'div.empty',
                h('h2', 'Nothing listens'),
                h('p', 'Start a server in the sandbox, for example:'),
                h('pre', 'python3 -m http.server 8000'),
              ),
        );
      } catch (error) {
        if (!isAbort(error) && !signal.aborted) replace(list, failure(error));
        shown = '';
      }
    },
    signal,
  );
}
