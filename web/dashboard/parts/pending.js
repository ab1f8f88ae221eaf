/* Actions of a sandbox that wait for their confirmation, each a card with the verdict and two buttons. */
import { h, reconcile, setText } from '../base/dom.js';
import { age, visible } from '../base/format.js';
import { every } from '../base/wait.js';
import { boxes } from '../api/boxes.js';
import { isAbort } from '../api/client.js';
import { answerPending, getPending } from '../api/service.js';
import { announce, complain, remark } from './remarks.js';

/* What the action would do, in its own words. */
function subject({ action, args }) {
  if (action === 'network') return `A connection to ${args?.host}:${args?.port}, which no rule allows, waits`;
  const what = args?.command ?? args?.code ?? args?.path ?? args?.url ?? args?.browser_actions ?? args?.name ?? '';
  return `${action}: ${what}`;
}

function finding({ analyzer, risk, rule, part, text }) {
  const where = [rule && `rule ${rule}`, part].filter(Boolean).join(', ');
  return h(
    'li',
    h('span.badge', { 'data-risk': risk }, visible(`${analyzer}: ${risk} risk`)),
    ' ',
    visible(text ?? ''),
    where && h('code', visible(` ${where}`)),
  );
}

function diff(text) {
  return h(
    'pre.diff',
    text
      .split('\n')
      .filter(Boolean)
      .map((line) => h(line[0] === '-' ? 'del' : 'ins', `${visible(line)}\n`)),
  );
}

function card(one, ask) {
  const left = h('span.faint');
  const button = (label, answer, mark) =>
    h(`button${mark}`, { type: 'button', onclick: ({ currentTarget }) => answer(currentTarget) }, label);
  const connection = one.action.action === 'network';
  const buttons = h(
    'p.row',
    button(connection ? 'Let it through' : 'Carry it out', (at) => ask(one, 'confirm', at), '.primary'),
    one.rule && button(`Allow ${visible(one.rule)} from now on`, (at) => ask(one, 'confirm', at, true), ''),
    button('Refuse', (at) => ask(one, 'reject', at), '.danger'),
    left,
  );
  const element = h(
    'section.card.pad.confirm-card',
    { 'aria-label': 'An action that waits for its confirmation' },
    h('h2', connection ? 'May it connect there?' : 'May this be carried out?'),
    h('pre', visible(subject(one.action))),
    one.diff && diff(one.diff),
    h('ul', (one.verdict?.findings ?? []).map(finding)),
    buttons,
  );
  element.left = left;
  return element;
}

/* The place above the views of a box; empty while nothing waits. */
export function pendingCards(id, signal) {
  const place = h('div.stack');
  let version = null;
  let list = [];

  const draw = () =>
    reconcile(
      place,
      list,
      (one) => one.id,
      (one) => card(one, ask),
      (element, one) => setText(element.left, `${age(Math.max(0, one.until - Date.now() / 1000))} left`),
    );
  const load = async () => {
    const box = boxes.get(id);
    if (!box || box.version === version) return;
    version = box.version;
    try {
      const { pending } = await getPending(id, signal);
      if (pending.length > list.length) announce('An action waits for its confirmation');
      list = pending;
      draw();
    } catch (error) {
      version = null;
      if (!isAbort(error) && error.status !== 404) complain(error, 'Actions that wait');
    }
  };
  async function ask(one, answer, button, rule = false) {
    button.setAttribute('aria-busy', 'true');
    list = list.filter(({ id: other }) => other !== one.id);
    try {
      const asked = answerPending(id, one.id, answer, rule);
      draw();
      await asked;
      remark(answer === 'confirm' ? 'It was carried out' : 'It was refused');
    } catch (error) {
      complain(error, 'The answer was not taken');
    }
    version = null;
    load();
  }
  boxes.on('change', load, signal);
  every(5000, draw, signal);
  load();
  return place;
}
