/* The key that a person gave us: kept for this tab, or for this browser when asked to; sent as a header,
 * never part of an address. */
import { Emitter } from '../base/emitter.js';

const NAME = 'tendon.key';

class Session extends Emitter {
  #key = sessionStorage.getItem(NAME) ?? localStorage.getItem(NAME) ?? '';

  get key() {
    return this.#key;
  }

  get remembered() {
    return localStorage.getItem(NAME) !== null;
  }

  keep(key, remember) {
    this.#key = key;
    sessionStorage.setItem(NAME, key);
    if (remember) localStorage.setItem(NAME, key);
    else localStorage.removeItem(NAME);
  }

  /* `why` is told on the page where one signs in again. */
  forget(why = '') {
    if (!this.#key) return;
    this.#key = '';
    sessionStorage.removeItem(NAME);
    localStorage.removeItem(NAME);
    this.emit('end', why);
  }
}

export const session = new Session();

/* A login ticket in the fragment ("#ticket=...") is taken out of the address bar and the history at
 * once; or ''. */
export function takeTicket() {
  const match = /^#\/?\??ticket=([A-Za-z0-9_-]+)$/.exec(location.hash);
  if (!match) return '';
  history.replaceState(null, '', location.pathname);
  return match[1];
}
