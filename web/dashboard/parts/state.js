/* The state of a sandbox, or of the connection, as a word with a mark. */
import { h, setText } from '../base/dom.js';

export function stateMark() {
  return h('span.state');
}

export function showState(mark, state, text = state) {
  mark.dataset.state = state;
  setText(mark, text);
}

/* What a person should read: "starting (3rd in line)". */
export function stateText(box) {
  if (box.state === 'starting' && box.queue_position > 0) return `in line: ${box.queue_position}`;
  if (box.goal && box.goal !== box.state && ['running', 'paused', 'stopped'].includes(box.state)) {
    return { running: 'resuming', paused: 'pausing', stopped: 'stopping' }[box.goal] ?? box.state;
  }
  return box.state;
}

/* Placeholders of the coming shape instead of a spinner. */
export function skeleton(lines = 4) {
  return h(
    'div.stack.pad',
    { 'aria-busy': 'true', 'aria-label': 'Loading' },
    Array.from({ length: lines }, (_, i) => h('span', { class: `skeleton w${(i % 3) + 1}` })),
  );
}

/* Where something could not be shown, with a way to try again. */
export function failure(error, again) {
  return h(
    'div.note.bad',
    { role: 'alert' },
    h('p', error.message),
    again && h('p', h('button.small', { type: 'button', onclick: again }, 'Try again')),
  );
}
