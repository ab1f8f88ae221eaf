/* The sandboxes, as the service tells them, always up to date; and how the connection is.
 *
 * Emits "change" (many changes at once are one), "link", and "back" after an interruption. After
 * every interruption the service tells everything again, so nothing is missed. */
import { Emitter } from '../base/emitter.js';
import { follow } from './stream.js';
import { getBox, watchPath } from './service.js';

class Boxes extends Emitter {
  #all = new Map();
  #scheduled = false;
  #seen = null; /* ids told since a reset */
  loaded = false;
  /* state: connecting, live or lost; retryAt: when the next attempt is, in milliseconds */
  link = { state: 'connecting', retryAt: 0 };

  get list() {
    return [...this.#all.values()];
  }

  get(id) {
    return this.#all.get(id);
  }

  /* A box that an answer of the service held: newer than what we have, or not. */
  put(box) {
    const known = this.#all.get(box.id);
    if (known && known.version > box.version) return known;
    this.#all.set(box.id, box);
    this.#changed();
    return box;
  }

  drop(id) {
    if (this.#all.delete(id)) this.#changed();
  }

  async refresh(id, signal) {
    try {
      return this.put(await getBox(id, signal));
    } catch (error) {
      if (error.status === 404) this.drop(id);
      throw error;
    }
  }

  /* Follows the service until the signal aborts. */
  run(signal) {
    const settle = (state, wait = 0) => {
      const before = this.link.state;
      this.link = { state, retryAt: Date.now() + wait };
      this.emit('link', this.link);
      if (state === 'live' && before === 'lost') this.emit('back');
    };
    const tell = {
      opened: () => settle('live'),
      event: ({ event, data }) => this.#told(event, JSON.parse(data)),
      lost: (_, wait) => settle('lost', wait),
    };
    return follow(watchPath, tell, { signal, hurry: this });
  }

  /* The service tells all of them between "reset" and "ready", then every change. */
  #told(event, data) {
    if (event === 'reset') {
      this.#seen = new Set();
    } else if (event === 'sandbox') {
      this.#seen?.add(data.id);
      this.put(data);
    } else if (event === 'gone') {
      this.drop(data.id);
    } else if (event === 'ready') {
      for (const id of this.#seen ? this.#all.keys() : []) if (!this.#seen.has(id)) this.#all.delete(id);
      this.#seen = null;
      this.loaded = true;
      this.#changed();
    }
  }

  clear() {
    this.#all.clear();
    this.loaded = false;
    this.#changed();
  }

  #changed() {
    if (this.#scheduled) return;
    this.#scheduled = true;
    /* Not requestAnimationFrame: that stands still in a tab in the background. */
    setTimeout(() => {
      this.#scheduled = false;
      this.emit('change');
    }, 30);
  }
}

export const boxes = new Boxes();
