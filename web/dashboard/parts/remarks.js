/* Passing remarks in the corner: what was done, or why not. */
import { h, icon, replace } from '../base/dom.js';
import { isAbort } from '../api/client.js';
import { ICONS } from './icons.js';

const place = h('div.remarks', { role: 'region', 'aria-label': 'Messages' });
const spoken = h('div.unseen', { 'aria-live': 'polite' });

/* The whole page anew, but for these two. */
export function setPage(...children) {
  replace(document.body, ...children, place, spoken);
}

/* For screen readers only. */
export function announce(text) {
  spoken.textContent = text;
}

export function remark(text, { bad = false, seconds = bad ? 12 : 5 } = {}) {
  const element = h(
    'div.remark',
    { class: bad ? 'remark bad' : 'remark', role: bad ? 'alert' : 'status' },
    h('span', text),
    h(
      'button.quiet.small',
      { type: 'button', 'aria-label': 'Close this message', onclick: () => element.remove() },
      icon(ICONS.close),
    ),
  );
  place.append(element);
  while (place.childElementCount > 4) place.firstElementChild.remove();
  setTimeout(() => element.remove(), seconds * 1000);
}

/* For what a person asked for and did not get. */
export function complain(error, what = '') {
  if (isAbort(error)) return;
  remark(what ? `${what}: ${error.message}` : error.message, { bad: true });
}
