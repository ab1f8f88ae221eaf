/* What the hand of a sandbox, or its container, has written to its log; with what comes. */
import { h, replace, setText } from '../base/dom.js';
import { visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { logsPath } from '../api/service.js';
import { follow, readText } from '../api/stream.js';
import { failure } from '../parts/state.js';

const MOST = 4 << 20; /* characters that are shown */

export function logsView(place, { id, signal }) {
  const pane = h('pre.text-pane', { tabindex: '0', 'aria-label': 'Log' }, h('span.skeleton.w2'));
  const search = h('input.search', {
    type: 'search',
    placeholder: 'Only lines with',
    'aria-label': 'Only lines with',
  });
  const count = h('span.muted.small', { role: 'status' });
  const problem = h('div');
  let text = null;

  const draw = () => {
    if (text === null) return;
    const words = search.value.toLowerCase();
    const lines = text.split('\n').filter((line) => line && line.toLowerCase().includes(words));
    const atEnd = pane.scrollHeight - pane.scrollTop - pane.clientHeight < 40;
    setText(
      pane,
      lines.length ? visible(lines.join('\n')) : words ? 'No line has that.' : 'The log is empty.',
    );
    setText(count, `${lines.length} lines`);
    if (atEnd) pane.scrollTop = pane.scrollHeight;
  };
  search.addEventListener('input', draw);
  replace(place, h('div.row', search, count), problem, pane);
  let drawing = 0;
  const drawSoon = () => {
    drawing ||= requestAnimationFrame(() => {
      drawing = 0;
      draw();
    });
  };
  signal.addEventListener('abort', () => cancelAnimationFrame(drawing), { once: true });
  follow(
    () => logsPath(id, { follow: 1 }),
    {
      /* Each stream begins with all there is. */
      opened() {
        text = '';
        replace(problem);
        drawSoon();
      },
      event(piece) {
        text += piece;
        if (text.length > MOST) text = text.slice(text.indexOf('\n', text.length - MOST) + 1);
        drawSoon();
      },
      lost(error) {
        if (error) replace(problem, failure(error));
      },
    },
    { signal, read: readText },
  ).catch((error) => {
    if (!isAbort(error) && !signal.aborted) replace(problem, failure(error));
  });
}
