/* What a sandbox is, as the service knows it. */
import { h, replace } from '../base/dom.js';
import { dateAndTime, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { getBox } from '../api/service.js';
import { failure, skeleton } from '../parts/state.js';

const yesNo = (value) => (value === true ? 'yes' : value === false ? 'no' : String(value));
const seconds = (value) => (value > 0 ? `${value} s` : 'never');

/* Rows of a definition list: [[name, text]], those without a text are left out. */
export function facts(rows) {
  return h(
    'dl.facts',
    rows
      .filter(([, value]) => value !== undefined && value !== null && value !== '')
      .map(([name, value]) => [h('dt', name), h('dd', value instanceof Node ? value : visible(value))]),
  );
}

function json(value) {
  return h('pre.text-pane', { tabindex: '0' }, visible(JSON.stringify(value, null, 2)));
}

export async function detailsView(place, context) {
  const { id, signal } = context;
  replace(place, h('div.card', skeleton(6)));
  try {
    const box = await getBox(id, signal);
    const isolation = box.isolation && typeof box.isolation === 'object' ? Object.entries(box.isolation) : [];
    const section = (title, content) => h('section.card.pad.stack', h('h2', title), content);
    replace(
      place,
      section(
        'Sandbox',
        facts([
          ['Id', h('code', box.id)],
          ['Name', box.name],
          ['Session', box.session],
          ['State', box.state],
          ['Reason', box.reason],
          ['Runtime', box.runtime],
          ['Image', box.image],
          ['Template', box.template],
          ['Tenant', box.tenant],
          ['Key', box.key],
          ['Created', dateAndTime(box.created)],
          ['Started', dateAndTime(box.started)],
          ['Last used', dateAndTime(box.used)],
          ['Deleted at', box.expires ? dateAndTime(box.expires) : 'never, unless asked'],
          ['Paused when unused for', seconds(box.idle_pause)],
          ['Stopped when unused for', seconds(box.idle_stop)],
          ['Restarts', String(box.restarts ?? 0)],
        ]),
      ),
      isolation.length > 0 &&
        section(
          'Isolation it really has',
          facts(
            isolation.map(([name, value]) => [
              name.replaceAll('_', ' '),
              typeof value === 'object' ? JSON.stringify(value) : yesNo(value),
            ]),
          ),
        ),
      section('Asked for', json(box.spec ?? {})),
      Object.keys(box.metadata ?? {}).length > 0 && section('Metadata', json(box.metadata)),
    );
  } catch (error) {
    if (!isAbort(error) && !signal.aborted)
      replace(
        place,
        failure(error, () => detailsView(place, context)),
      );
  }
}
