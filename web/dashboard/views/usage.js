/* Processor, memory and processes of a sandbox over the last minutes. */
import { h, replace, setText } from '../base/dom.js';
import { bytes, duration, parseSize } from '../base/format.js';
import { every } from '../base/wait.js';
import { isAbort } from '../api/client.js';
import { getBox, getUsage } from '../api/service.js';
import { chart, niceBytes, niceTop } from '../parts/chart.js';
import { cpuPoints } from '../parts/meter.js';
import { failure } from '../parts/state.js';

const EVERY = 2000;

const processors = (value) => `${value.toFixed(value < 10 ? 2 : 1)} CPU`;

export function usageView(place, { id, signal }) {
  let limits = {};
  const cpu = chart('Processors', { format: processors, scale: (values) => niceTop(values, 0.1) });
  const memory = chart('Memory', { format: bytes, scale: (values) => niceBytes(values, 1 << 20) });
  const facts = { peak: h('b', '–'), disk: h('b', '–'), processes: h('b', '–'), time: h('b', '–') };
  const tile = (value, label) => h('div.card.tile', value, h('span', label));
  const problem = h('div', { role: 'status' });
  const known = (value, format = String) => (value === null || value === undefined ? '–' : format(value));

  const look = async () => {
    try {
      const { now, samples } = await getUsage(id, signal);
      const latest = samples.at(-1)?.time ?? Date.now() / 1000;
      cpu.show(cpuPoints(samples), latest, limits.cpus ? ` of ${limits.cpus}` : '');
      memory.show(
        samples.filter((one) => one.memory !== null).map((one) => ({ at: one.time, value: one.memory })),
        latest,
        limits.memory ? ` of ${bytes(limits.memory)}` : '',
      );
      setText(facts.peak, known(now.memory_peak, bytes));
      setText(facts.disk, known(now.disk, bytes));
      setText(facts.processes, known(now.processes));
      setText(facts.time, known(now.cpu_seconds, duration));
      replace(problem);
    } catch (error) {
      if (!isAbort(error) && !signal.aborted) replace(problem, failure(error));
    }
  };

  replace(
    place,
    problem,
    h('div.charts', cpu.element, memory.element),
    h(
      'div.tiles',
      tile(facts.peak, 'memory at most'),
      tile(facts.disk, 'disk'),
      tile(facts.processes, 'processes'),
      tile(facts.time, 'processor time'),
    ),
  );
  getBox(id, signal)
    .then(
      (box) => {
        limits = { cpus: box.spec?.cpus, memory: parseSize(box.spec?.memory) };
      },
      () => {},
    )
    .finally(() => every(EVERY, look, signal));
}
