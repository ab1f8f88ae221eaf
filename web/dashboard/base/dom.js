/* Elements without markup: what comes from elsewhere only ever becomes text or a checked address. */

const PROPERTIES = new Set([
  'value',
  'checked',
  'disabled',
  'hidden',
  'open',
  'selected',
  'indeterminate',
  'readOnly',
]);

function setAttribute(element, name, value) {
  if (value === undefined || value === null || (value === false && !PROPERTIES.has(name))) return;
  if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
  else if (PROPERTIES.has(name)) element[name] = value;
  else element.setAttribute(name, value === true ? '' : value);
}

/* h('button.primary#save', { onclick, type: 'button' }, 'Save'): attributes may be left out. */
export function h(selector, ...rest) {
  const [, tag, marks] = /^([a-z0-9]+)(.*)$/.exec(selector);
  const element = document.createElement(tag);
  for (const mark of marks.match(/[.#][^.#]+/g) ?? []) {
    if (mark[0] === '.') element.classList.add(mark.slice(1));
    else element.id = mark.slice(1);
  }
  const first = rest[0];
  if (first && typeof first === 'object' && !(first instanceof Node) && !Array.isArray(first)) {
    for (const [name, value] of Object.entries(rest.shift())) setAttribute(element, name, value);
  }
  append(element, rest);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

export function replace(element, ...children) {
  const fragment = document.createDocumentFragment();
  append(fragment, children);
  element.replaceChildren(fragment);
}

/* Text of an element, written only when it differs: a live page should not disturb a selection. */
export function setText(element, text) {
  const wanted = String(text ?? '');
  if (element.textContent !== wanted) element.textContent = wanted;
}

/* A drawing of one path in a box of 24: h() makes HTML elements only. */
export function svg(tag, attributes, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export function icon(path) {
  const attributes = { viewBox: '0 0 24 24', class: 'icon', 'aria-hidden': 'true', focusable: 'false' };
  return svg('svg', attributes, svg('path', { d: path }));
}

const rowsOf = new WeakMap(); /* list -> key -> row */

/* Keeps the children of a list in the order of `items`, making and dropping them as needed; what stays
 * is moved only when its place changed, so that focus and selection live on. */
export function reconcile(list, items, keyOf, make, update) {
  const known = rowsOf.get(list) ?? new Map();
  rowsOf.set(list, known);
  const wanted = new Set(items.map(keyOf));
  for (const [key, row] of known) {
    if (wanted.has(key)) continue;
    row.remove();
    known.delete(key);
  }
  let next = list.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = known.get(key);
    if (!row) known.set(key, (row = make(item)));
    update(row, item);
    if (row === next) next = next.nextElementSibling;
    else list.insertBefore(row, next);
  }
}

/* Unique ids for aria-labelledby and the like. */
let counter = 0;
export const uniqueId = (prefix) => `${prefix}-${++counter}`;
