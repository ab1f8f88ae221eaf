/* The service itself: version, limits, what runs. */
import { h, replace, setText } from '../base/dom.js';
import { age, dateAndTime, visible } from '../base/format.js';
import { every } from '../base/wait.js';
import { boxes } from '../api/boxes.js';
import { isAbort } from '../api/client.js';
import { getInfo } from '../api/service.js';
import { failure, skeleton } from '../parts/state.js';
import { facts } from './details.js';

const STATES = ['running', 'starting', 'paused', 'stopped', 'error', 'missing'];

export function serviceView(place, { me, signal, title }) {
  const counts = STATES.map((state) => ({ state, value: h('b', '–') }));
  const body = h('div.stack', h('div.card', skeleton(4)));
  const draw = () =>
    counts.forEach(({ state, value }) =>
      setText(value, boxes.list.filter((box) => box.state === state).length),
    );

  title('Service');
  replace(
    place,
    h('div.head', h('h1', 'Service')),
    h(
      'div.stack',
      h(
        'div.tiles',
        counts.map(({ state, value }) => h('div.card.tile', value, h('span', state))),
      ),
      body,
    ),
  );
  boxes.on('change', draw, signal);
  draw();
  every(
    10000,
    async () => {
      try {
        const info = await getInfo({ signal });
        replace(
          body,
          h(
            'section.card.pad.stack',
            h('h2', 'Service'),
            facts(
              Object.entries(info)
                .filter(([, value]) => typeof value !== 'object')
                .map(([name, value]) => [label(name), told(name, value)]),
            ),
          ),
          h(
            'section.card.pad.stack',
            h('h2', 'Runtimes'),
            facts(info.runtimes.map((one) => [one.name, runtimeText(one)])),
          ),
          Object.entries(info)
            .filter(([, value]) => value && typeof value === 'object' && !Array.isArray(value))
            .map(([name, value]) =>
              h(
                'section.card.pad.stack',
                h('h2', label(name)),
                facts(
                  Object.entries(value).map(([key, one]) => [
                    label(key),
                    typeof one === 'object' ? JSON.stringify(one) : String(one),
                  ]),
                ),
              ),
            ),
          h(
            'section.card.pad.stack',
            h('h2', 'You'),
            facts([
              ['Key', h('code', me.key)],
              ['Name', me.name],
              ['Tenant', me.tenant],
              ['May', me.scopes.join(', ')],
            ]),
          ),
        );
      } catch (error) {
        if (!isAbort(error) && !signal.aborted) replace(body, failure(error));
      }
    },
    signal,
  );
}

function runtimeText(runtime) {
  const missing = (runtime.missing ?? [])
    .filter((finding) => finding.needed)
    .map((finding) => `${finding.what}: ${finding.detail}`);
  return h(
    'span',
    h('span', { class: runtime.works ? 'badge good' : 'badge' }, runtime.works ? 'works' : 'not here'),
    ` ${visible([runtime.summary, runtime.usual && 'the usual one', ...missing].filter(Boolean).join(' · '))}`,
  );
}

const label = (name) => name.replaceAll('_', ' ').replace(/^./, (first) => first.toUpperCase());

function told(name, value) {
  if (name === 'uptime') return age(value);
  if (name === 'started') return dateAndTime(value);
  return String(value);
}
