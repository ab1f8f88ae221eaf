/* Processor and memory of sandboxes that are looked at. */
import { getUsage } from '../api/service.js';

const AT_ONCE = 4; /* a browser has six connections to a service, and streams hold two of them */
const MOST = 40;

const LEAST = 0.5; /* seconds between two samples: less says nothing about a processor */

/* Samples { time, cpu_seconds } -> points of processors in use between each two; a restarted sandbox
 * counts from zero again. */
export function cpuPoints(samples) {
  const points = [];
  let last = null;
  for (const sample of samples) {
    if (sample.cpu_seconds === null || (last && sample.time - last.time < LEAST)) continue;
    if (last && sample.cpu_seconds >= last.cpu_seconds) {
      points.push({
        at: sample.time,
        value: (sample.cpu_seconds - last.cpu_seconds) / (sample.time - last.time),
      });
    }
    last = sample;
  }
  return points;
}

class Meter {
  #known = new Map(); /* id -> { cpu, memory } */

  get(id) {
    return this.#known.get(id);
  }

  /* Asks for these anew; what cannot be told keeps its last numbers. */
  async read(ids, signal) {
    const rest = ids.slice(0, MOST);
    const worker = async () => {
      while (rest.length && !signal.aborted) {
        const id = rest.shift();
        try {
          const { now, samples } = await getUsage(id, signal);
          this.#known.set(id, { cpu: cpuPoints(samples).at(-1)?.value ?? NaN, memory: now.memory ?? NaN });
        } catch {
          /* The connection's state is shown elsewhere. */
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }
}

export const meter = new Meter();
