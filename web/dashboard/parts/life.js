/* What can be done to a sandbox as a whole, and when. */
import { go } from '../base/route.js';
import { boxes } from '../api/boxes.js';
import { deleteBox, forkBox, orderBox, renameBox } from '../api/service.js';
import { ask, confirm } from './dialog.js';
import { complain, remark } from './remarks.js';

const nameOf = (box) => box.name || box.id;

async function order(box, what, done) {
  try {
    const answer = await orderBox(box.id, what);
    if (answer?.id) boxes.put(answer);
    remark(`${nameOf(box)} ${done}.`);
  } catch (error) {
    complain(error, nameOf(box));
  }
}

async function remove(box) {
  const sure = await confirm({
    title: `Delete ${nameOf(box)}?`,
    text: 'Its processes end, and its files, snapshots and events are removed. This cannot be undone.',
    yes: 'Delete',
  });
  if (!sure) return false;
  try {
    await deleteBox(box.id);
    boxes.drop(box.id);
    remark(`${nameOf(box)} was deleted.`);
    return true;
  } catch (error) {
    complain(error, nameOf(box));
    return false;
  }
}

export function fork(box, snapshot) {
  return ask({
    title: snapshot ? `Fork ${nameOf(box)} from ${snapshot}` : `Fork ${nameOf(box)}`,
    text: 'The new sandbox starts with the files of this one. Its processes are its own.',
    yes: 'Fork',
    fields: [{ name: 'name', label: 'Name', value: '', hint: 'May be left empty.' }],
    submit: async ({ name }) => {
      const wish = { ...(name && { name }), ...(snapshot && { snapshot }), wait: 0 };
      const made = boxes.put(await forkBox(box.id, wish));
      go(['sandboxes', made.id]);
    },
  });
}

function rename(box) {
  return ask({
    title: `Rename ${nameOf(box)}`,
    yes: 'Rename',
    fields: [{ name: 'name', label: 'Name', value: box.name ?? '', required: true }],
    submit: async ({ name }) => boxes.put(await renameBox(box.id, name)),
  });
}

/* [{ label, run, danger }] in the order of use; `left` is called when the box is no more. */
export function lifeActions(box, left = () => {}) {
  const is = (...states) => states.includes(box.state);
  return [
    is('running') && { label: 'Pause', run: () => order(box, 'pause', 'is paused') },
    is('paused') && { label: 'Resume', run: () => order(box, 'resume', 'runs again') },
    is('stopped', 'error') && { label: 'Start', run: () => order(box, 'resume', 'runs') },
    is('running', 'paused') && { label: 'Stop', run: () => order(box, 'stop', 'is stopped') },
    is('running', 'paused', 'stopped') && { label: 'Fork', run: () => fork(box) },
    { label: 'Rename', run: () => rename(box) },
    { label: 'Delete', danger: true, run: async () => (await remove(box)) && left() },
  ].filter(Boolean);
}

export function lifeItems(box) {
  return [
    ['Open', () => go(['sandboxes', box.id])],
    ['Terminal', () => go(['sandboxes', box.id, 'terminal'])],
    ...lifeActions(box).map(({ label, run, danger }) => [
      `${label}${label === 'Delete' || label === 'Fork' || label === 'Rename' ? '…' : ''}`,
      run,
      { danger },
    ]),
  ];
}
