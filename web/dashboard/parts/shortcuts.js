/* Keys: one table that feeds both the listener and the help. Sequences such as "g s" are typed one
 * after the other; nothing is taken from a field, a terminal or a dialog but what says so. */
import { h } from '../base/dom.js';
import { openDialog } from './dialog.js';

const MEANINGLESS = new Set(['Shift', 'Control', 'Alt', 'Meta']);

function typing(target) {
  return (
    target instanceof Element &&
    target.closest('input, textarea, select, [contenteditable], .xterm, dialog, [data-keys="own"]')
  );
}

/* keys: [[key, meaning, run, { anywhere }]]; Control-K counts as Command-K too. */
export function listenForKeys(keys, signal) {
  let before = '';
  let timer = 0;
  document.addEventListener(
    'keydown',
    (event) => {
      if (event.defaultPrevented || MEANINGLESS.has(event.key) || event.altKey) return;
      const name =
        (event.ctrlKey || event.metaKey ? 'Ctrl+' : '') +
        (event.key.length === 1 ? event.key.toLowerCase() : event.key);
      const found = keys.find(
        ([key, , , { anywhere = false } = {}]) =>
          (key === name || key === `${before} ${name}`) && (anywhere || !typing(event.target)),
      );
      clearTimeout(timer);
      before = found ? '' : name;
      timer = setTimeout(() => (before = ''), 1500);
      if (!found) return;
      event.preventDefault();
      found[2]();
    },
    { signal },
  );
}

const ELSEWHERE = [
  ['F6', 'leave the terminal or the browser view'],
  ['Ctrl+S', 'save the file in the editor'],
  ['Ctrl+Shift+C, Ctrl+Shift+V', 'copy and paste in the terminal'],
  ['← →', 'between tabs'],
  ['Esc', 'close what lies on top'],
];

export function showHelp(keys) {
  const rows = [...keys.map(([key, meaning]) => [key, meaning]), ...ELSEWHERE];
  const dialog = openDialog(
    'Keyboard',
    h(
      'dl.shortcuts',
      rows.map(([key, meaning]) => [
        h(
          'dt',
          key
            .split(', ')
            .map((combination, i) => [
              i ? ', ' : '',
              combination.split(' ').map((part) => [h('kbd', part), ' ']),
            ]),
        ),
        h('dd', meaning),
      ]),
    ),
  );
  dialog.firstElementChild.append(
    h(
      'div.answers',
      h('button.primary', { type: 'button', onclick: () => dialog.close(), autofocus: true }, 'Close'),
    ),
  );
}
