/* Questions. The browser's own dialog element keeps the focus inside and gives it back. */
import { h, uniqueId } from '../base/dom.js';

function show(dialog, closed) {
  document.body.append(dialog);
  dialog.addEventListener('close', () => {
    dialog.remove();
    closed?.(dialog.returnValue);
  });
  dialog.addEventListener('click', (event) => event.target === dialog && dialog.close());
  dialog.showModal();
  return dialog;
}

/* A question belongs to the view it was asked in: going elsewhere is no answer. */
export function closeDialogs() {
  for (const dialog of document.querySelectorAll('dialog[open]')) dialog.close();
}

/* A dialog with content of one's own; returns it. */
export function openDialog(title, content, { kind = '', closed } = {}) {
  const id = uniqueId('dialog');
  return show(
    h('dialog', { class: kind, 'aria-labelledby': id }, h('div', h('h2', { id }, title), content)),
    closed,
  );
}

/* Resolves to true when the person says yes. */
export function confirm({ title, text, yes, danger = true }) {
  return new Promise((resolve) => {
    const id = uniqueId('dialog');
    const go = h('button.primary', { class: danger ? 'primary danger' : 'primary', value: 'yes' }, yes);
    show(
      h(
        'dialog',
        { role: 'alertdialog', 'aria-labelledby': id },
        h(
          'form',
          { method: 'dialog' },
          h('h2', { id }, title),
          text && h('p.muted', text),
          h('div.answers', h('button', { value: '', autofocus: true }, 'Cancel'), go),
        ),
      ),
      (answer) => resolve(answer === 'yes'),
    );
  });
}

/* Fields: [{ name, label, value, hint, required, pattern, type, options }].  `submit(values)` may throw: the
 * dialog stays and shows why.  Resolves to what submit returned, or undefined. */
export function ask({ title, text, fields, yes, submit }) {
  return new Promise((resolve) => {
    let result;
    const id = uniqueId('dialog');
    const problem = h('p.note.bad', { role: 'alert', hidden: true });
    const go = h('button.primary', { type: 'submit' }, yes);
    const form = h(
      'form',
      h('h2', { id }, title),
      text && h('p.muted', text),
      fields.map(field),
      problem,
      h('div.answers', h('button', { type: 'button', onclick: () => dialog.close() }, 'Cancel'), go),
    );
    form.addEventListener('submit', async (event) => {
      event.preventDefault();
      problem.hidden = true;
      go.disabled = true;
      try {
        result = await submit(Object.fromEntries(new FormData(form)));
        dialog.close();
      } catch (error) {
        problem.textContent = error.message;
        problem.hidden = false;
      } finally {
        go.disabled = false;
      }
    });
    const dialog = show(h('dialog', { 'aria-labelledby': id }, form), () => resolve(result));
    form.querySelector('input, select, textarea')?.select?.();
  });
}

/* A labelled control, for dialogs and forms. */
export function field({ name, label, hint, type = 'text', options, value, ...rest }) {
  const hintId = hint && uniqueId('hint');
  const common = { name, 'aria-describedby': hintId, autocomplete: 'off', spellcheck: 'false', ...rest };
  let control;
  if (type === 'checkbox') {
    return h('label.check', h('input', { type, checked: Boolean(value), value: 'on', ...common }), label);
  } else if (options) {
    control = h(
      'select',
      common,
      options.map((option) => {
        const [text, key] = Array.isArray(option) ? option : [option, option];
        return h('option', { value: key, selected: key === value }, text);
      }),
    );
  } else if (type === 'area') {
    control = h('textarea.mono', { rows: 3, value: value ?? '', ...common });
  } else {
    control = h('input', { type, value: value ?? '', ...common });
  }
  return h('label.field', h('span', label), control, hint && h('span.hint', { id: hintId }, hint));
}
