/* Files on their way into a sandbox, two at a time, with progress and a way to stop each. */
import { h, icon, setText } from '../base/dom.js';
import { bytes, percent, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { showPath, writeFile } from '../api/files.js';
import { ICONS } from './icons.js';
import { announce, remark } from './remarks.js';

const AT_ONCE = 2;

/* done() is called whenever some have arrived. */
export function uploads(id, done) {
  const element = h('div.uploads', { role: 'group', 'aria-label': 'Uploads' });
  const waiting = [];
  let running = 0;

  const next = () => {
    while (running < AT_ONCE && waiting.length) {
      running++;
      waiting
        .shift()()
        .finally(() => {
          running--;
          next();
        });
    }
    if (!running) done();
  };

  return {
    element,
    add(file, path) {
      const cancel = new AbortController();
      const bar = h('progress', { max: 1, value: 0, 'aria-label': `Upload of ${visible(file.name)}` });
      const state = h('span.muted', 'waiting');
      const row = h(
        'div.upload',
        h('span.clip', visible(file.name)),
        state,
        h(
          'button.quiet.small',
          {
            type: 'button',
            'aria-label': `Stop the upload of ${visible(file.name)}`,
            onclick: () => cancel.abort(),
          },
          icon(ICONS.close),
        ),
        bar,
      );
      element.append(row);
      waiting.push(async () => {
        try {
          if (cancel.signal.aborted) return;
          await writeFile(id, path, file, {
            signal: cancel.signal,
            progress: (sent, total) => {
              bar.value = total ? sent / total : 1;
              setText(state, `${percent(total ? sent / total : 1)} of ${bytes(total)}`);
            },
          });
          announce(`${visible(file.name)} was uploaded`);
        } catch (error) {
          if (!isAbort(error)) remark(`${visible(showPath(path))}: ${error.message}`, { bad: true });
        } finally {
          row.remove();
        }
      });
      next();
    },
  };
}
