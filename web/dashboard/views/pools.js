/* Warm pools: sandboxes that wait, ready, for whoever asks next. */
import { h, replace } from '../base/dom.js';
import { visible } from '../base/format.js';
import { every } from '../base/wait.js';
import { isAbort } from '../api/client.js';
import { getPools, getTemplates, removePool, setPool } from '../api/service.js';
import { ask, confirm } from '../parts/dialog.js';
import { menuButton } from '../parts/menu.js';
import { complain, remark } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';

const EVERY = 3000;

export function poolsView(place, { signal, title }) {
  const card = h('div.card', skeleton(3));
  let shown = '';

  const load = async () => {
    try {
      const { pools } = await getPools(signal);
      if (JSON.stringify(pools) === shown) return;
      shown = JSON.stringify(pools);
      replace(
        card,
        pools.length
          ? table(pools, load)
          : h(
              'div.empty',
              h('h2', 'No pools'),
              h(
                'p',
                'A pool keeps sandboxes of a template running and verified, so that a new one is there in milliseconds whatever its runtime.',
              ),
            ),
      );
    } catch (error) {
      shown = '';
      if (!isAbort(error) && !signal.aborted) replace(card, failure(error, load));
    }
  };
  title('Pools');
  replace(
    place,
    h(
      'div.head',
      h('h1', 'Pools'),
      h('button.primary', { type: 'button', onclick: () => edit(null, load) }, 'New pool'),
    ),
    card,
  );
  every(EVERY, load, signal);
}

function table(pools, changed) {
  const number = (label, value) => h('td.number', { 'data-label': label }, String(value ?? '–'));
  return h(
    'table.table.cards',
    { 'aria-label': 'Pools' },
    h(
      'thead',
      h(
        'tr',
        h('th', 'Name'),
        h('th', 'Template'),
        ...['Ready', 'Target', 'Being made', 'Handed out', 'Missed'].map((label) => h('th.number', label)),
        h('th', ''),
      ),
    ),
    h(
      'tbody',
      pools.map((pool) =>
        h(
          'tr',
          h(
            'td.main',
            visible(pool.name),
            pool.problem && h('small', h('span.badge.bad', 'problem'), ` ${visible(pool.problem)}`),
          ),
          h('td', visible(pool.template ?? '')),
          number('Ready', pool.ready),
          number('Target', pool.target),
          number('Being made', pool.making),
          number('Handed out', pool.claimed),
          number('Missed', pool.missed),
          h(
            'td.number',
            pool.configured
              ? h('span.badge', { title: 'It comes from the configuration' }, 'configured')
              : menuButton(`Actions for ${visible(pool.name)}`, [
                  ['Change…', () => edit(pool, changed)],
                  ['Remove…', () => remove(pool, changed), { danger: true }],
                ]),
          ),
        ),
      ),
    ),
  );
}

async function edit(pool, changed) {
  let templates = [];
  try {
    templates = (await getTemplates()).templates.map((template) => template.name);
  } catch (error) {
    complain(error);
    return;
  }
  const number = (name, label, value, hint) => ({
    name,
    label,
    value,
    hint,
    type: 'number',
    min: 0,
    max: 10000,
    required: true,
  });
  await ask({
    title: pool ? `Change ${visible(pool.name)}` : 'New pool',
    yes: pool ? 'Change' : 'Create',
    fields: [
      { name: 'name', label: 'Name', value: pool?.name ?? '', required: true, readOnly: Boolean(pool) },
      {
        name: 'template',
        label: 'Template',
        value: pool?.template ?? '',
        options: [['None', ''], ...templates],
      },
      number('target', 'Target', pool?.target ?? 2, 'So many wait when nothing happens.'),
      number('minimum', 'Minimum', pool?.minimum ?? 0, 'Below it, filling goes before other starts.'),
      number('burst', 'Made at a time', pool?.burst ?? 2),
    ],
    submit: async ({ name, template, ...numbers }) => {
      await setPool(name, {
        ...(template && { template }),
        ...Object.fromEntries(Object.entries(numbers).map(([key, value]) => [key, Number(value)])),
      });
      changed();
    },
  });
}

async function remove(pool, changed) {
  if (
    !(await confirm({
      title: `Remove the pool ${visible(pool.name)}?`,
      text: 'Sandboxes that wait in it are deleted; those that were handed out stay.',
      yes: 'Remove',
    }))
  )
    return;
  try {
    await removePool(pool.name);
    remark(`The pool ${visible(pool.name)} was removed.`);
  } catch (error) {
    complain(error);
  }
  changed();
}
