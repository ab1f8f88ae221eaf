/* Server-sent events out of pieces of text (EventSource cannot send a key). */

export class EventParser {
  #rest = '';
  #event = '';
  #data = [];
  #id = '';

  /* What is complete with this piece: [{ event, data, id }]. */
  push(text) {
    const done = [];
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line, done);
    return done;
  }

  #line(line, done) {
    if (line === '') {
      if (this.#data.length)
        done.push({ event: this.#event || 'message', data: this.#data.join('\n'), id: this.#id });
      this.#event = '';
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (name === 'event') this.#event = value;
    else if (name === 'data') this.#data.push(value);
    else if (name === 'id') this.#id = value;
  }
}

/* Reads an answer as events until it ends; no byte for `silence` milliseconds counts as broken (the
 * service shows a sign of life every 15 seconds). */
export async function* readEvents(response, silence = 45000) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser();
  try {
    for (;;) {
      let timer;
      const quiet = new Promise((_, reject) => {
        timer = setTimeout(() => reject(new Error('the stream fell silent')), silence);
      });
      const { value, done } = await Promise.race([reader.read(), quiet]).finally(() => clearTimeout(timer));
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
