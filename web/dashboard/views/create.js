/* A new sandbox: from a template, or by hand. */
import { h, replace } from '../base/dom.js';
import { go } from '../base/route.js';
import { boxes } from '../api/boxes.js';
import { createBox, getInfo, getTemplates, newAttempt } from '../api/service.js';
import { field } from '../parts/dialog.js';
import { failure, skeleton } from '../parts/state.js';

/* "A=1\nB=two" -> { A: "1", B: "two" }; throws naming the line that is no assignment. */
export function parseVariables(text) {
  const variables = {};
  for (const line of text
    .split('\n')
    .map((part) => part.trim())
    .filter(Boolean)) {
    const at = line.indexOf('=');
    if (at < 1) throw new Error(`Environment: “${line}” is not of the form NAME=value.`);
    variables[line.slice(0, at).trim()] = line.slice(at + 1);
  }
  return variables;
}

/* The values of the form -> the body of the request; what was left empty is not sent. */
export function wishOf(values) {
  const text = (name) => values[name]?.trim() || undefined;
  const number = (name, scale = 1) => (text(name) === undefined ? undefined : Number(values[name]) * scale);
  const env = parseVariables(values.env ?? '');
  const rules = (values.allow ?? '').split(/[\n,]/).map((rule) => rule.trim()).filter(Boolean);
  const wish = {
    name: text('name'),
    template: text('template'),
    runtime: text('runtime'),
    image: text('image'),
    memory: text('memory'),
    cpus: number('cpus'),
    disk: text('disk'),
    network: text('network'),
    allow: rules.length ? rules : undefined,
    ask: values.ask ? true : undefined,
    workspace: text('workspace'),
    env: Object.keys(env).length ? env : undefined,
    idle_pause: number('idle_pause', 60),
    ttl: number('ttl', 60),
    wait: 0 /* the list and its own page show how it starts */,
  };
  return Object.fromEntries(Object.entries(wish).filter(([, value]) => value !== undefined));
}

/* What the browser would say of the first field that is wrong, also of one that is folded away, where
 * its own bubble cannot appear: the fold opens, the field gets the focus. "" when all is well. */
export function check(form) {
  const wrong = [...form.elements].find((control) => control.willValidate && !control.checkValidity());
  if (!wrong) return '';
  const fold = wrong.closest('details');
  if (fold) fold.open = true;
  wrong.focus();
  const label = wrong.labels?.[0]?.querySelector('span')?.textContent ?? wrong.name;
  const told = wrong.validity.patternMismatch && wrong.title;
  return `${label}: ${told ? `Expected ${told}.` : wrong.validationMessage}`;
}

export async function createView(place, { route, signal, title }) {
  title('New sandbox');
  replace(place, h('div.head', h('h1', 'New sandbox')), h('div.card', skeleton(6)));
  let templates = [];
  let info = {};
  try {
    [templates, info] = await Promise.all([getTemplates(signal), getInfo({ signal })]);
  } catch (error) {
    if (!signal.aborted)
      replace(
        place,
        h('div.head', h('h1', 'New sandbox')),
        failure(error, () => createView(place, { route, signal, title })),
      );
    return;
  }
  let attempt = newAttempt();
  const problem = h('p.note.bad', { role: 'alert', hidden: true });
  const button = h('button.primary', { type: 'submit' }, 'Create');
  const names = templates.templates.map((template) => template.name);
  const runtimes = info.runtimes
    .filter((runtime) => runtime.works)
    .map((runtime) => [runtime.usual ? `${runtime.name} (usual)` : runtime.name, runtime.name]);
  const form = h(
    'form.stack',
    { novalidate: true } /* see check */,
    h(
      'div.card.pad.stack',
      h(
        'div.fields',
        field({ name: 'name', label: 'Name', hint: 'For people; may be left empty.', maxlength: 100 }),
        field({
          name: 'template',
          label: 'Template',
          value: route.query.get('template') ?? '',
          options: [[names.length ? 'None' : 'None configured', ''], ...names],
          hint: names.length
            ? 'What it leaves open can be set below.'
            : '[template.NAME] of the configuration makes one.',
        }),
        field({
          name: 'runtime',
          label: 'Runtime',
          value: '',
          options: [['As the template or the service says', ''], ...runtimes],
        }),
        field({ name: 'image', label: 'Image', placeholder: 'as the runtime says', class: 'mono' }),
      ),
    ),
    h(
      'details.card',
      h('summary.pad', 'Limits, network, environment'),
      h(
        'div.pad.stack',
        h(
          'div.fields',
          field({
            name: 'memory',
            label: 'Memory',
            placeholder: '4g',
            pattern: '\\s*\\d+(\\.\\d+)?\\s*[kKmMgGtT]?[iI]?[bB]?\\s*',
            title: 'a number with k, m, g or t',
          }),
          field({
            name: 'cpus',
            label: 'Processors',
            type: 'number',
            min: 0.1,
            step: 'any',
            placeholder: 'all',
          }),
          field({ name: 'disk', label: 'Disk', placeholder: 'no limit' }),
          field({
            name: 'network',
            label: 'Network',
            value: '',
            options: [['As the runtime says', ''], 'none', 'allow', 'open', 'bridge', 'host'],
          }),
          field({
            name: 'idle_pause',
            label: 'Pause when unused',
            type: 'number',
            min: 0,
            step: 'any',
            placeholder: 'minutes',
          }),
          field({
            name: 'ttl',
            label: 'Delete after',
            type: 'number',
            min: 0,
            step: 'any',
            placeholder: 'minutes',
          }),
          field({ name: 'workspace', label: 'Working directory', placeholder: '/workspace', class: 'mono' }),
        ),
        field({
          name: 'allow',
          label: 'Allowed hosts',
          type: 'area',
          placeholder: 'pypi.org, *.example.com:443, @git: one on each line',
          hint: 'With the network allow: these instead of what the configuration allows.',
        }),
        field({
          name: 'ask',
          label: 'Ask about connections that no rule allows',
          type: 'checkbox',
        }),
        field({
          name: 'env',
          label: 'Environment',
          type: 'area',
          placeholder: 'NAME=value, one on each line',
        }),
      ),
    ),
    problem,
    h('div.row', button, h('a.button', { href: '#/sandboxes' }, 'Cancel')),
  );
  form.addEventListener('submit', async (event) => {
    event.preventDefault();
    const wrong = check(form);
    problem.hidden = !wrong;
    problem.textContent = wrong;
    if (wrong) return;
    button.disabled = true;
    try {
      const made = boxes.put(await createBox(wishOf(Object.fromEntries(new FormData(form))), attempt));
      if (!signal.aborted) go(['sandboxes', made.id]);
    } catch (error) {
      /* Answered: the next one is another request. Not answered: it may have happened, ask for the same. */
      if (error.status) attempt = newAttempt();
      problem.hidden = false;
      problem.textContent = error.message;
    } finally {
      button.disabled = false;
    }
  });
  replace(place, h('div.head', h('h1', 'New sandbox')), form);
  form.elements.name.focus();
}
