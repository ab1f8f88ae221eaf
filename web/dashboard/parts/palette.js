/* The command palette: everything that can be gone to or done, found by typing. */
import { h, reconcile } from '../base/dom.js';

/* How well `words` fits: higher is better, 0 not at all.  Every word must occur. */
export function score(label, words) {
  const text = label.toLowerCase();
  let sum = 1;
  for (const word of words.toLowerCase().split(/\s+/).filter(Boolean)) {
    const at = text.indexOf(word);
    if (at < 0) return 0;
    sum += at === 0 ? 3 : /\W/.test(text[at - 1]) ? 2 : 1;
  }
  return sum;
}

/* commands: [{ label, hint, run }] */
export function openPalette(commands) {
  let shown = [];
  let chosen = 0;
  const list = h('ul', { role: 'listbox', id: 'palette-list', 'aria-label': 'Commands' });
  const input = h('input', {
    type: 'text',
    role: 'combobox',
    'aria-expanded': 'true',
    'aria-controls': 'palette-list',
    'aria-label': 'Find a sandbox or a command',
    placeholder: 'Find a sandbox or a command',
    autocomplete: 'off',
    spellcheck: 'false',
  });
  const dialog = h('dialog.palette', { 'aria-label': 'Command palette' }, h('div', input, list));

  const run = (command) => {
    dialog.close();
    command?.run();
  };
  const draw = () => {
    shown = commands
      .map((command) => [score(`${command.label} ${command.hint ?? ''}`, input.value), command])
      .filter(([fit]) => fit > 0)
      .sort((a, b) => b[0] - a[0])
      .slice(0, 50)
      .map(([, command]) => command);
    chosen = Math.min(chosen, Math.max(0, shown.length - 1));
    reconcile(
      list,
      shown,
      (command) => command,
      (command) =>
        h(
          'li',
          { role: 'option', onclick: () => run(command) },
          h('span', command.label),
          h('small', command.hint ?? ''),
        ),
      (row, command) => {
        const now = shown[chosen] === command;
        row.id = `palette-${shown.indexOf(command)}`;
        row.setAttribute('aria-selected', now);
        if (now) row.scrollIntoView({ block: 'nearest' });
      },
    );
    input.setAttribute('aria-activedescendant', shown.length ? `palette-${chosen}` : '');
  };
  input.addEventListener('input', () => {
    chosen = 0;
    draw();
  });
  input.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown.length) {
      event.preventDefault();
      chosen = (chosen + step + shown.length) % shown.length;
      draw();
    } else if (event.key === 'Enter') {
      event.preventDefault();
      run(shown[chosen]);
    }
  });
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
  draw();
}
