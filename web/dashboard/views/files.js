/* Files: a directory as a list, or one file in the editor. */
import { h, icon, reconcile, replace, setText } from '../base/dom.js';
import { bytes, dateAndTime, plural, visible } from '../base/format.js';
import { routeTo } from '../base/route.js';
import { isAbort } from '../api/client.js';
import {
  encodePath,
  join,
  lastOf,
  listFiles,
  makeDirectory,
  moveFile,
  parentOf,
  removeFile,
  segmentOf,
  showPath,
  statFile,
  writeFile,
} from '../api/files.js';
import { getBox, getHand } from '../api/service.js';
import { ask, confirm } from '../parts/dialog.js';
import { downloadFile } from '../parts/download.js';
import { ICONS } from '../parts/icons.js';
import { menuButton } from '../parts/menu.js';
import { complain, remark } from '../parts/remarks.js';
import { failure, skeleton } from '../parts/state.js';
import { uploads } from '../parts/uploads.js';
import { editFile } from './editor.js';

const MOST_SHOWN = 5000;
const kindOrder = (entry) => (entry.type === 'directory' ? 0 : 1);

function addressOf(id, path) {
  const query = {};
  try {
    query.path = decodeURIComponent(path);
  } catch {
    Object.assign(query, { path, raw: '1' }); /* bytes that are no text */
  }
  return routeTo(['sandboxes', id, 'files'], query);
}

/* The path that the address names, percent-encoded; '' when it names none. */
function pathIn(route) {
  const path = route.query.get('path') ?? '';
  return path && (route.query.has('raw') ? path : encodePath(path));
}

/* Where work happens in this sandbox: the directory of its main shell, else what it was made with. */
async function startOf(id, signal) {
  try {
    const session = await getHand(id, '/v1/sessions/main', signal);
    if (session.cwd) return encodePath(session.cwd);
  } catch (error) {
    if (isAbort(error)) throw error;
  }
  return encodePath((await getBox(id, signal)).spec?.workspace ?? '/');
}

export function filesView(place, context) {
  const { id, signal } = context;
  let turn = null;

  const show = async () => {
    turn?.abort();
    turn = new AbortController();
    const mine = turn.signal;
    signal.addEventListener('abort', () => turn.abort(), { signal: mine });
    try {
      const path = pathIn(context.route) || (await startOf(id, mine));
      const { type } = path === '/' ? { type: 'directory' } : await statFile(id, path, mine);
      if (mine.aborted) return;
      if (type === 'directory') await showDirectory(place, id, path, mine, show);
      else
        await editFile(place, {
          id,
          path,
          signal: mine,
          crumbs: crumbs(id, path),
          back: () => location.assign(addressOf(id, parentOf(path))),
        });
    } catch (error) {
      if (!isAbort(error) && !mine.aborted)
        replace(place, crumbs(id, pathIn(context.route) || '/'), failure(error, show));
    }
  };
  context.onRoute = show;
  replace(place, h('div.card', skeleton(6)));
  show();
}

export function crumbs(id, path) {
  const segments = path.split('/').filter(Boolean);
  return h(
    'nav.crumbs',
    { 'aria-label': 'Path' },
    h('a', { href: addressOf(id, '/') }, '/'),
    segments.map((segment, i) => [
      i ? h('span.muted', { 'aria-hidden': 'true' }, '/') : '',
      h(
        'a',
        {
          href: addressOf(id, `/${segments.slice(0, i + 1).join('/')}`),
          'aria-current': i === segments.length - 1 ? 'page' : undefined,
        },
        visible(showPath(segment)),
      ),
    ]),
  );
}

async function showDirectory(place, id, path, signal, again) {
  const body = h('tbody');
  const count = h('span.muted.small', { role: 'status' });
  const filter = h('input.search', { type: 'search', placeholder: 'Filter', 'aria-label': 'Filter files' });
  const picker = h('input', {
    type: 'file',
    multiple: true,
    hidden: true,
    'aria-label': 'Files to upload',
    onchange: () => {
      send([...picker.files].map((file) => ({ file, name: file.name })));
      picker.value = '';
    },
  });
  const area = h(
    'div.card.files',
    h(
      'table.table.cards',
      { 'aria-label': `Files in ${showPath(path)}` },
      h(
        'thead',
        h(
          'tr',
          h('th', 'Name'),
          h('th.number', 'Size'),
          h('th', 'Changed'),
          h('th', 'Mode'),
          h('th', h('span.unseen', 'Actions')),
        ),
      ),
      path === '/' ? null : h('tbody', upRow(id, path)),
      body,
    ),
  );
  let entries = [];

  const draw = () => {
    const words = filter.value.toLowerCase();
    const some = entries.filter((entry) => entry.name.toLowerCase().includes(words));
    setText(
      count,
      some.length === entries.length
        ? plural(entries.length, 'entry', 'entries')
        : `${some.length} of ${entries.length}`,
    );
    reconcile(
      body,
      some.slice(0, MOST_SHOWN),
      segmentOf,
      (entry) => fileRow(id, path, entry, load),
      updateFileRow,
    );
    if (!some.length)
      replace(
        body,
        h(
          'tr.none',
          h(
            'td.full',
            { colspan: 5 },
            h(
              'p.muted',
              entries.length
                ? 'No name matches.'
                : 'This directory is empty. Drop files here to upload them.',
            ),
          ),
        ),
      );
  };
  const load = async () => {
    const found = [];
    try {
      for await (const page of listFiles(id, path, signal)) {
        found.push(...page);
        if (found.length >= MOST_SHOWN) break;
      }
    } catch (error) {
      if (!isAbort(error)) complain(error);
      return;
    }
    entries = found.sort((a, b) => kindOrder(a) - kindOrder(b));
    body.querySelector('.none')?.remove();
    draw();
  };
  const tray = uploads(id, load);
  const send = (files) =>
    files.forEach(({ file, name }) => tray.add(file, join(path, encodePath(name).slice(1))));

  filter.addEventListener('input', () => {
    body.querySelector('.none')?.remove();
    draw();
  });
  dropTarget(area, send, signal);
  await load();
  if (signal.aborted) return;
  replace(
    place,
    h(
      'div.row',
      crumbs(id, path),
      filter,
      count,
      h('button', { type: 'button', onclick: () => picker.click() }, 'Upload'),
      picker,
      menuButton('More for this directory', [
        ['New folder…', () => newEntry('New folder', (name) => makeDirectory(id, join(path, name)), load)],
        [
          'New file…',
          () =>
            newEntry(
              'New file',
              async (name) => {
                if (entries.some((entry) => segmentOf(entry) === name))
                  throw new Error('There is something of that name.');
                await writeFile(id, join(path, name), '');
                location.assign(addressOf(id, join(path, name)));
              },
              load,
            ),
        ],
        ['Refresh', load],
      ]),
    ),
    tray.element,
    area,
  );
}

function newEntry(title, make, done) {
  return ask({
    title,
    yes: 'Create',
    fields: [
      { name: 'name', label: 'Name', required: true, pattern: '[^/]+', title: 'a name without a slash' },
    ],
    submit: async ({ name }) => {
      await make(encodeURIComponent(name));
      done();
    },
  });
}

function upRow(id, path) {
  return h(
    'tr',
    h('td.main.full', { colspan: 5 }, icon(ICONS.up), h('a', { href: addressOf(id, parentOf(path)) }, 'Up')),
  );
}

/* --- one row ----------------------------------------------------------------------------------------- */

function fileRow(id, directory, entry, changed) {
  const path = join(directory, segmentOf(entry));
  const name = visible(entry.name);
  const cells = { size: h('td.number'), time: h('td.spare'), mode: h('td.mono.small.away') };
  const drawing = { directory: ICONS.folder, symlink: ICONS.link }[entry.type] ?? ICONS.file;
  const row = h(
    'tr',
    h(
      'td.main',
      icon(drawing),
      h('a', { href: addressOf(id, path) }, name),
      entry.target && h('small', `→ ${visible(entry.target)}`),
    ),
    cells.size,
    cells.time,
    cells.mode,
    h(
      'td.number',
      menuButton(`Actions for ${name}`, [
        entry.type === 'file' && ['Download', () => download(id, path, entry.name)],
        !entry.name_base64 && ['Rename…', () => rename(id, directory, path, entry, changed)],
        ['Delete…', () => remove(id, path, entry, changed), { danger: true }],
      ]),
    ),
  );
  row.parts_ = cells;
  return row;
}

function updateFileRow(row, entry) {
  const { size, time, mode } = row.parts_;
  setText(size, entry.type === 'file' ? bytes(entry.size) : '');
  setText(time, dateAndTime(entry.mtime));
  setText(mode, entry.mode);
}

export async function download(id, path, name) {
  try {
    await downloadFile(id, path, name);
  } catch (error) {
    complain(error, name);
  }
}

function rename(id, directory, path, entry, changed) {
  return ask({
    title: `Rename ${visible(entry.name)}`,
    yes: 'Rename',
    fields: [
      {
        name: 'name',
        label: 'New name',
        value: entry.name,
        required: true,
        pattern: '[^/]+',
        title: 'a name without a slash',
      },
    ],
    submit: async ({ name }) => {
      await moveFile(id, path, join(directory, encodeURIComponent(name)));
      changed();
    },
  });
}

async function remove(id, path, entry, changed) {
  const directory = entry.type === 'directory';
  const sure = await confirm({
    title: `Delete ${visible(entry.name)}?`,
    text: directory ? 'Everything in this directory is removed, too.' : 'This cannot be undone.',
    yes: 'Delete',
  });
  if (!sure) return;
  try {
    await removeFile(id, path, directory);
    remark(`${visible(lastOf(showPath(path)))} was deleted.`);
  } catch (error) {
    complain(error);
  }
  changed();
}

/* --- dropping ---------------------------------------------------------------------------------------- */

/* Calls send([{ file, name }]) with what is dropped; directories come with everything in them. */
function dropTarget(area, send, signal) {
  const over = (event, on) => {
    if (!event.dataTransfer?.types.includes('Files')) return;
    event.preventDefault();
    area.classList.toggle('drop', on);
  };
  area.addEventListener('dragenter', (event) => over(event, true), { signal });
  area.addEventListener('dragover', (event) => over(event, true), { signal });
  area.addEventListener('dragleave', (event) => !area.contains(event.relatedTarget) && over(event, false), {
    signal,
  });
  area.addEventListener(
    'drop',
    async (event) => {
      over(event, false);
      const dropped = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
      send((await Promise.all(dropped.map((entry) => filesIn(entry, '')))).flat());
    },
    { signal },
  );
}

async function filesIn(entry, before) {
  const name = `${before}${entry.name}`;
  if (entry.isFile)
    return [{ name, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) }];
  const reader = entry.createReader();
  const found = [];
  for (;;) {
    const batch = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!batch.length) break;
    for (const inner of batch) found.push(...(await filesIn(inner, `${name}/`)));
  }
  return found;
}
