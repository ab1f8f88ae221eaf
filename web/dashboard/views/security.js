/* Who judges actions before they are carried out, and what becomes of those that are risky; administrators change the
 * latter, key by key. */
import { h, replace } from '../base/dom.js';
import { duration, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { changeKey, getKeys, getSecurity } from '../api/service.js';
import { ask } from '../parts/dialog.js';
import { remark } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';
import { thresholdFields, thresholdsOf } from '../parts/thresholds.js';
import { facts } from './details.js';

const RISKS = ['low', 'medium', 'high', 'unknown'];
const MEANING = { allow: 'carried out', ask: 'asked first', block: 'not carried out' };
const BADGES = { allow: 'badge good', ask: 'badge wait', block: 'badge bad' };
const MODES = {
  never: 'nobody is asked: what would be asked is refused',
  risky: 'somebody is asked about what is risky',
  always: 'somebody is asked about everything',
};

export async function securityView(place, context) {
  const { me, signal, title } = context;
  const body = h('div.stack', h('div.card', skeleton(4)));

  title('Security');
  replace(place, h('div.head', h('h1', 'Security')), body);
  try {
    const [told, { keys }] = await Promise.all([
      getSecurity({ signal }),
      me.admin ? getKeys(signal) : { keys: [] },
    ]);
    const good = keys.filter((key) => !key.revoked);
    replace(
      body,
      cards(told),
      me.admin && keysCard(good, told, () => securityView(place, context)),
    );
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

function keysCard(keys, told, again) {
  return h(
    'section.card.stack',
    h('h2.pad', 'Keys'),
    h(
      'table.table.cards',
      { 'aria-label': 'What becomes of the actions of each key' },
      h('thead', h('tr', h('th', 'Name'), h('th', 'Tenant'), h('th', 'Its own'), h('th', ''))),
      h(
        'tbody',
        keys.map((key) =>
          h(
            'tr',
            h('td.main', visible(key.name || key.id)),
            h('td', visible(key.tenant)),
            h('td.full', own(key)),
            h(
              'td.number',
              h('button.small', { type: 'button', onclick: () => change(key, told, again) }, 'Change'),
            ),
          ),
        ),
      ),
    ),
  );
}

const own = ({ security, analyzers }) => {
  const rows = Object.entries(security);
  if (analyzers) rows.push(['judged by', visible(analyzers.join(', '))]);
  return rows.length
    ? rows.map(([name, word]) => [h('span', { class: BADGES[word] ?? 'badge' }, `${name}: ${word}`), ' '])
    : 'as the service says';
};

function change(key, { analyzers, service }, again) {
  const asked = (one) => key.analyzers?.includes(one) ?? true;
  const name = visible(key.name || key.id);
  return ask({
    title: `What becomes of the actions of ${name}`,
    text: `From its next action on, also in sandboxes that run. The service says: ${Object.entries(service)
      .map(([row, word]) => `${row} ${word}`)
      .join(', ')}.`,
    yes: 'Change',
    fields: [
      ...thresholdFields(key.security),
      ...analyzers.map((one) => ({
        name: `analyzer ${one.name}`,
        label: `Judged by ${visible(one.name)}`,
        type: 'checkbox',
        value: asked(one.name),
      })),
    ],
    submit: async (values) => {
      const chosen = analyzers.map((one) => one.name).filter((one) => values[`analyzer ${one}`]);
      if (analyzers.length && !chosen.length) throw new Error('One analyzer at least has to judge.');
      await changeKey(key.id, {
        security: thresholdsOf(values),
        analyzers: chosen.length < analyzers.length ? chosen : null,
      });
      remark(`${name} is changed.`);
      again();
    },
  });
}
