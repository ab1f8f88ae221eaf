/* API keys, for administrators. */
import { h, replace } from '../base/dom.js';
import { dateAndTime, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { createKey, getKeys, revokeKey } from '../api/service.js';
import { ask, confirm, openDialog } from '../parts/dialog.js';
import { complain, remark } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';
import { thresholdFields, thresholdsOf } from '../parts/thresholds.js';

const NAME = '[A-Za-z0-9._@\\-]{1,64}';
const NAME_HINT = '1 to 64 letters, digits, dots, dashes, underscores or @';
const SCOPES = [
  ['read', 'look'],
  ['use', 'act in sandboxes'],
  ['manage', 'create and delete'],
  ['admin', 'everything, of everybody'],
];

export async function keysView(place, context) {
  const { me, signal, title } = context;
  const again = () => keysView(place, context);
  const head = h(
    'div.head',
    h('h1', 'Keys'),
    h('button.primary', { type: 'button', onclick: () => create(me, again) }, 'New key'),
  );
  const card = h('div.card', skeleton(3));
  title('Keys');
  replace(place, head, card);
  try {
    const { keys } = await getKeys(signal);
    replace(
      card,
      h(
        'table.table.cards',
        { 'aria-label': 'API keys' },
        h(
          'thead',
          h(
            'tr',
            h('th', 'Name'),
            h('th', 'Tenant'),
            h('th', 'May'),
            h('th', 'Last used'),
            h('th', 'Valid until'),
            h('th', ''),
          ),
        ),
        h(
          'tbody',
          keys.map((key) => row(key, me, again)),
        ),
      ),
    );
  } catch (error) {
    if (!isAbort(error) && !signal.aborted) replace(card, failure(error, again));
  }
}

function row(key, me, again) {
  const name = visible(key.name || key.id);
  return h(
    'tr',
    h('td.main', name, key.id === me.key && h('span.badge', 'this one'), h('small', key.id)),
    h('td', visible(key.tenant)),
    h(
      'td.full',
      key.scopes.map((scope) => [h('span.badge', scope), ' ']),
    ),
    h('td', { 'data-label': 'Used' }, dateAndTime(key.used)),
    h(
      'td',
      { 'data-label': 'Until' },
      key.revoked ? h('span.badge.bad', 'revoked') : key.expires ? dateAndTime(key.expires) : 'no end',
    ),
    h(
      'td.number',
      !key.revoked &&
        h('button.danger.small', { type: 'button', onclick: () => revoke(key, me, again) }, 'Revoke'),
    ),
  );
}

async function revoke(key, me, again) {
  const name = visible(key.name || key.id);
  const sure = await confirm({
    title: `Revoke ${name}?`,
    yes: 'Revoke',
    text:
      key.id === me.key
        ? 'This is the key you are signed in with: you will be signed out.'
        : 'Whoever uses it is refused from now on. Sandboxes stay.',
  });
  if (!sure) return;
  try {
    await revokeKey(key.id);
    remark(`${name} is revoked.`);
  } catch (error) {
    complain(error, name);
  }
  again();
}

async function create(me, again) {
  const made = await ask({
    title: 'New key',
    yes: 'Create',
    fields: [
      {
        name: 'name',
        label: 'Name',
        required: true,
        pattern: NAME,
        title: NAME_HINT,
        hint: 'Who or what will use it.',
      },
      {
        name: 'tenant',
        label: 'Tenant',
        value: me.tenant,
        required: true,
        pattern: NAME,
        title: NAME_HINT,
        hint: 'Keys of one tenant see the same sandboxes.',
      },
      ...SCOPES.map(([scope, text]) => ({
        name: scope,
        label: `${scope}: ${text}`,
        type: 'checkbox',
        value: scope !== 'admin',
      })),
      { name: 'days', label: 'Valid for days', type: 'number', min: 1, placeholder: 'no end' },
      {
        name: 'max_sandboxes',
        label: 'Sandboxes at most',
        type: 'number',
        min: 1,
        placeholder: 'as the service says',
      },
      ...thresholdFields(),
    ],
    submit: (values) =>
      createKey({
        name: values.name,
        tenant: values.tenant,
        scopes: SCOPES.map(([scope]) => scope).filter((scope) => values[scope]),
        ...(values.days && { expires: Number(values.days) * 86400 }),
        ...(values.max_sandboxes && { limits: { max_sandboxes: Number(values.max_sandboxes) } }),
        security: thresholdsOf(values),
      }),
  });
  if (!made) return;
  showOnce(made.key);
  again();
}

/* The service keeps only a digest: this is the one time the key can be seen. */
function showOnce(text) {
  const input = h('input.mono', {
    value: text,
    readOnly: true,
    'aria-label': 'The new key',
    onfocus: (event) => event.target.select(),
  });
  const dialog = openDialog('The new key', [
    h('p.muted', 'It is shown only now. Keep it where secrets are kept.'),
    input,
    h(
      'div.answers',
      navigator.clipboard &&
        h(
          'button',
          {
            type: 'button',
            onclick: async () => {
              await navigator.clipboard.writeText(text);
              remark('The key was copied.');
            },
          },
          'Copy',
        ),
      h('button.primary', { type: 'button', onclick: () => dialog.close() }, 'Done'),
    ),
  ]);
}
