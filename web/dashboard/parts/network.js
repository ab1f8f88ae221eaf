/* What the network of a sandbox refused, with a button for each rule that would let it through. */
import { h, replace } from '../base/dom.js';
import { age, visible } from '../base/format.js';
import { every } from '../base/wait.js';
import { isAbort } from '../api/client.js';
import { allowNetwork, getNetwork } from '../api/service.js';
import { complain, remark } from './remarks.js';

const SHOWN = 8;

function entry({ what, why, count, at, rule }, rules, allow) {
  const times = count > 1 ? `${count} times, ` : '';
  const ago = age(Math.max(0, Date.now() / 1000 - at));
  const button = () =>
    h('button', { type: 'button', onclick: ({ currentTarget }) => allow(rule, currentTarget) }, visible(`Allow ${rule}`));
  return h(
    'li',
    h('code', visible(what)),
    ` ${visible(why)} `,
    h('span.faint', `${times}${ago} ago `),
    rule && (rules.includes(rule) ? h('span.badge', 'allowed now') : button()),
  );
}

/* The place above the views of a box; empty while nothing was refused. */
export function networkCard(id, signal) {
  const place = h('div.stack');
  let gated = true;

  const draw = ({ rules, refusals }) =>
    replace(
      place,
      refusals.length > 0 &&
        h(
          'section.card.pad.network-card',
          { 'aria-label': 'What the network refused' },
          h('h2', 'The network refused'),
          h('ul', refusals.slice(0, SHOWN).map((one) => entry(one, rules, allow))),
        ),
    );
  const load = async () => {
    if (!gated || place.querySelector('[aria-busy]')) return;
    try {
      const network = await getNetwork(id, signal);
      gated = network.gated;
      draw(network);
    } catch (error) {
      if (!isAbort(error) && error.status !== 404 && error.status !== 503) complain(error, 'The network');
    }
  };
  async function allow(rule, button) {
    button.setAttribute('aria-busy', 'true');
    try {
      draw(await allowNetwork(id, rule));
      remark(visible(`The network allows ${rule} from now on`));
    } catch (error) {
      button.removeAttribute('aria-busy');
      complain(error, 'The rule was not added');
    }
  }
  every(5000, load, signal);
  load();
  return place;
}
