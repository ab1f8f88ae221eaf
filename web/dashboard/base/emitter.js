/* Something that tells others: on(name, fn, signal) until the signal aborts. */
export class Emitter {
  #target = new EventTarget();

  on(name, listen, signal) {
    this.#target.addEventListener(name, (event) => listen(event.detail), { signal });
  }

  emit(name, detail) {
    this.#target.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
