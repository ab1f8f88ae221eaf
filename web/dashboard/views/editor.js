/* One file: text to edit, a picture to look at, or bytes to download. */
import { h, replace, setText } from '../base/dom.js';
import { bytes, plural, visible } from '../base/format.js';
import { isAbort } from '../api/client.js';
import { lastOf, readFile, showPath, statFile, writeFile } from '../api/files.js';
import { downloadFile } from '../parts/download.js';
import { openDialog } from '../parts/dialog.js';
import { complain, remark } from '../parts/remarks.js';

const MOST_TEXT = 2 << 20;
const MOST_PICTURE = 20 << 20;
const drafts =
  new Map(); /* what was typed and not saved: left for another view, it is still there afterwards */
const PICTURES = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  svg: 'image/svg+xml',
};

/* Text if these bytes are some, else null. */
export function textOf(buffer) {
  if (new Uint8Array(buffer).includes(0)) return null;
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(buffer);
  } catch {
    return null;
  }
}

export async function editFile(place, { id, path, signal, crumbs, back }) {
  const name = showPath(lastOf(path));
  const { size, type } = await statFile(id, path, signal);
  const picture = PICTURES[name.split('.').at(-1).toLowerCase()];
  const frame = (...content) =>
    replace(
      place,
      h('div.row', crumbs, h('button.quiet', { type: 'button', onclick: back }, 'Close')),
      ...content,
    );
  const download = h(
    'button',
    {
      type: 'button',
      onclick: async () => {
        try {
          await downloadFile(id, path, name, signal);
        } catch (error) {
          complain(error, name);
        }
      },
    },
    'Download',
  );

  if (type !== 'file')
    return frame(h('div.card.empty', h('p', `This is a ${type}: there is nothing to show.`)));
  if (size > (picture ? MOST_PICTURE : MOST_TEXT))
    return frame(h('div.card.empty', h('p', `${bytes(size)} are too much to show here.`), download));

  const response = await readFile(id, path, signal);
  const tag = response.headers.get('ETag') ?? '';
  const content = await response.arrayBuffer();
  if (signal.aborted) return undefined;
  if (picture) return showPicture(frame, content, picture, name, download, signal);
  const text = textOf(content);
  if (text === null) return frame(h('div.card.empty', h('p', `${bytes(size)} that are no text.`), download));
  return showText(frame, { id, path, name, text, tag, signal, download });
}

function showPicture(frame, content, type, name, download, signal) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  signal.addEventListener('abort', () => URL.revokeObjectURL(address));
  frame(h('div.editor', h('img', { src: address, alt: visible(name) }), h('div.row', download)));
}

function showText(frame, { id, path, name, text, tag, signal, download }) {
  /* A textarea has bare line feeds; the file keeps what it had. */
  const newline = text.includes('\r\n') ? '\r\n' : '\n';
  const draft = drafts.get(`${id} ${path}`);
  const area = h('textarea', {
    value: text,
    spellcheck: 'false',
    autocomplete: 'off',
    autocapitalize: 'off',
    'aria-label': `Content of ${visible(name)}`,
    wrap: 'off',
  });
  const state = h('span.muted.small', { role: 'status' });
  const save = h('button.primary', { type: 'button', disabled: true }, 'Save');
  let saved = area.value;
  if (draft) {
    area.value = draft.text;
    tag = draft.tag;
  }

  const draw = () => {
    const changed = area.value !== saved;
    save.disabled = !changed;
    if (changed) drafts.set(`${id} ${path}`, { text: area.value, tag });
    else drafts.delete(`${id} ${path}`);
    setText(state, `${plural(area.value.split('\n').length, 'line')}${changed ? ', not saved' : ''}`);
  };
  const put = async (match) => {
    const content = newline === '\n' ? area.value : area.value.replaceAll('\n', newline);
    const kept = area.value;
    tag = await writeFile(id, path, content, { match, signal });
    saved = kept;
    remark(`${visible(name)} was saved.`);
  };
  const replaceAnyway = async () => {
    try {
      if (await overwrite(name)) await put();
    } catch (error) {
      if (!isAbort(error)) complain(error, visible(name));
    }
  };
  const trySave = async () => {
    if (save.disabled) return;
    save.disabled = true;
    try {
      await put(tag);
    } catch (error) {
      if (error.status === 412) await replaceAnyway();
      else if (!isAbort(error)) complain(error, visible(name));
    }
    draw();
  };
  save.addEventListener('click', trySave);
  area.addEventListener('input', draw);
  area.addEventListener('keydown', (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 's') {
      event.preventDefault();
      trySave();
    }
  });
  frame(h('div.editor', h('div.row', save, download, state), area));
  draw();
  area.focus({ preventScroll: true });
  area.setSelectionRange(0, 0);
  area.scrollTop = 0;
}

addEventListener('beforeunload', (event) => drafts.size && event.preventDefault());

/* Somebody else has written the file since it was read: true when ours shall replace it. */
function overwrite(name) {
  return new Promise((resolve) => {
    let answer = false;
    const choose = (value) => () => {
      answer = value;
      dialog.close();
    };
    const dialog = openDialog(
      `${visible(name)} has changed`,
      [
        h(
          'p.muted',
          'It was written or removed by somebody else since you opened it. Saving replaces what is there now.',
        ),
        h(
          'div.answers',
          h('button', { type: 'button', autofocus: true, onclick: choose(false) }, 'Keep editing'),
          h('button.primary.danger', { type: 'button', onclick: choose(true) }, 'Replace it'),
        ),
      ],
      { closed: () => resolve(answer) },
    );
  });
}
