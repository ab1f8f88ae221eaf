/* A button with a menu: arrows move, Escape closes and gives the focus back. */
import { h, icon } from '../base/dom.js';
import { ICONS } from './icons.js';

/* items: [[label, fn, { danger }]], falsy ones are left out. */
export function menuButton(label, items, content = icon(ICONS.more)) {
  const button = h(
    'button.quiet.small',
    { type: 'button', 'aria-haspopup': 'menu', 'aria-label': label, 'aria-expanded': 'false' },
    content,
  );
  button.addEventListener('click', () => open(button, label, typeof items === 'function' ? items() : items));
  return button;
}

function open(button, label, items) {
  const menu = h(
    'div.menu',
    { popover: 'auto', role: 'menu', 'aria-label': label },
    items.filter(Boolean).map(([text, fn, { danger = false } = {}]) =>
      h(
        'button',
        {
          type: 'button',
          role: 'menuitem',
          tabindex: '-1',
          class: danger ? 'danger' : '',
          onclick: () => {
            menu.hidePopover();
            fn();
          },
        },
        text,
      ),
    ),
  );
  const entries = [...menu.children];
  menu.addEventListener('keydown', (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const to =
      { Home: 0, End: entries.length - 1 }[event.key] ??
      (step && (entries.indexOf(document.activeElement) + step + entries.length) % entries.length);
    if (to === undefined) return;
    event.preventDefault();
    entries[to].focus();
  });
  menu.addEventListener('toggle', (event) => {
    if (event.newState !== 'closed') return;
    button.setAttribute('aria-expanded', 'false');
    if (menu.contains(document.activeElement) || document.activeElement === document.body) button.focus();
    menu.remove();
  });
  document.body.append(menu);
  menu.showPopover();
  const at = button.getBoundingClientRect();
  const size = menu.getBoundingClientRect();
  menu.style.left = `${Math.max(8, Math.min(at.right - size.width, innerWidth - size.width - 8))}px`;
  menu.style.top = `${at.bottom + size.height + 8 > innerHeight ? Math.max(8, at.top - size.height - 4) : at.bottom + 4}px`;
  button.setAttribute('aria-expanded', 'true');
  entries[0]?.focus();
}
