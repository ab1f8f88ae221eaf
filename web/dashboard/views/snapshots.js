/* Snapshots of the files of a sandbox: take, go back, fork, forget. */
import { h, replace } from '../base/dom.js';
import { dateAndTime, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { boxes } from '../api/boxes.js';
import { getSnapshots, removeSnapshot, rollBack, takeSnapshot } from '../api/service.js';
import { ask, confirm } from '../parts/dialog.js';
import { fork } from '../parts/life.js';
import { menuButton } from '../parts/menu.js';
import { complain, remark } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';

export async function snapshotsView(place, context) {
  const { id, signal } = context;
  const again = () => snapshotsView(place, context);
  replace(place, h('div.card', skeleton(3)));
  try {
    const { snapshots } = await getSnapshots(id, signal);
    if (signal.aborted) return;
    replace(
      place,
      h(
        'div.row',
        h('button.primary', { type: 'button', onclick: () => take(id, again) }, 'Take a snapshot'),
        h('span.muted.small', 'Of the files, not of running processes.'),
      ),
      h(
        'div.card',
        snapshots.length
          ? h(
              'table.table',
              { 'aria-label': 'Snapshots' },
              h('thead', h('tr', h('th', 'Name'), h('th', 'Taken'), h('th', ''))),
              h(
                'tbody',
                snapshots.map((one) => row(id, one, again)),
              ),
            )
          : h(
              'div.empty',
              h('h2', 'No snapshots'),
              h(
                'p',
                'A snapshot keeps the files as they are, to go back to or to start other sandboxes from. It takes milliseconds.',
              ),
            ),
      ),
    );
  } catch (error) {
    if (!isAbort(error) && !signal.aborted) replace(place, failure(error, again));
  }
}

function take(id, done) {
  const name = `snapshot-${new Date()
    .toISOString()
    .slice(0, 19)
    .replace(/[^0-9]/g, '')}`;
  return ask({
    title: 'Take a snapshot',
    yes: 'Take it',
    fields: [{ name: 'name', label: 'Name', value: name, required: true }],
    submit: async (values) => {
      await takeSnapshot(id, values.name);
      done();
    },
  });
}

function row(id, snapshot, again) {
  const name = visible(snapshot.name);
  const attempt = async (what, text) => {
    try {
      await what();
      remark(text);
    } catch (error) {
      complain(error, name);
    }
    again();
  };
  return h(
    'tr',
    h('td.main', name),
    h('td', snapshot.created ? dateAndTime(snapshot.created) : ''),
    h(
      'td.number',
      menuButton(`Actions for ${name}`, [
        [
          'Go back to it…',
          async () => {
            const sure = await confirm({
              title: `Go back to ${name}?`,
              text: 'Files become what they were then, and running processes end.',
              yes: 'Go back',
            });
            if (sure)
              await attempt(() => rollBack(id, snapshot.name), `The files are those of ${name} again.`);
          },
        ],
        ['Fork from it…', () => fork(boxes.get(id), snapshot.name)],
        [
          'Forget it…',
          async () => {
            if (await confirm({ title: `Forget ${name}?`, yes: 'Forget' }))
              await attempt(() => removeSnapshot(id, snapshot.name), `${name} is forgotten.`);
          },
          { danger: true },
        ],
      ]),
    ),
  );
}
