/* Who judges actions before they are carried out, and what becomes of those that are risky. */
import { h, replace } from '../base/dom.js';
import { duration, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { getSecurity } from '../api/service.js';
import { failure, skeleton } from '../parts/state.js';
import { facts } from './details.js';

const RISKS = ['low', 'medium', 'high', 'unknown'];
const MEANING = { allow: 'carried out', ask: 'asked first', block: 'not carried out' };
const BADGES = { allow: 'badge good', ask: 'badge wait', block: 'badge bad' };
const MODES = {
  never: 'nobody is asked: what would be asked is refused',
  risky: 'somebody is asked about what is risky',
  always: 'somebody is asked about everything',
};

export async function securityView(place, { signal, title }) {
  const body = h('div.stack', h('div.card', skeleton(4)));

  title('Security');
  replace(place, h('div.head', h('h1', 'Security')), body);
  try {
    replace(body, cards(await getSecurity({ signal })));
  } catch (error) {
    if (!isAbort(error) && !signal.aborted) replace(body, failure(error));
  }
}

function cards({ judged, analyzers, service, key, confirm_seconds: seconds }) {
  const card = (name, ...content) => h('section.card.pad.stack', h('h2', name), ...content);
  if (!judged)
    return card(
      'Analyzers',
      h('p', 'No action is judged: security.analyzers of the configuration names none, and nobody is to be asked.'),
    );
  return [
    card(
      'Analyzers',
      analyzers.length
        ? facts(analyzers.map((one) => [visible(one.name), visible(one.about)]))
        : h('p', 'There is none: the risk of every action is unknown.'),
    ),
    card(
      'What becomes of an action',
      facts(RISKS.map((risk) => [`${risk} risk`, decision(key[risk], service[risk])])),
    ),
    card(
      'Confirmation',
      facts([
        ['Mode', MODES[key.confirmation] ?? visible(String(key.confirmation))],
        ['An action waits', `${duration(seconds)}, then it is refused`],
      ]),
    ),
  ];
}

/* What holds for this key, and what it would be without. */
function decision(own, usual) {
  return h(
    'span',
    h('span', { class: BADGES[own] ?? 'badge' }, own),
    ` ${MEANING[own] ?? ''}${own === usual ? '' : `; of this key: the service says ${usual}`}`,
  );
}
