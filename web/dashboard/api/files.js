/* Files of a sandbox, by the hand's own interface. A path is kept percent-encoded, segment by segment, so
 * that names that are no UTF-8 can be used like any other. */
import { ApiError, keyHeader, request } from './client.js';
import { getHand, handPath, sendHand } from './service.js';

/* --- paths (pure) ---------------------------------------------------------------------------------- */

/* "/a%20b/c": never a final slash, but for the root. */
export const encodePath = (path) => `/${path.split('/').filter(Boolean).map(encodeURIComponent).join('/')}`;
export const join = (directory, segment) => `${directory === '/' ? '' : directory}/${segment}`;
export const parentOf = (path) => path.slice(0, path.lastIndexOf('/')) || '/';
export const lastOf = (path) => path.slice(path.lastIndexOf('/') + 1);

/* An entry's name as a segment of such a path. */
export function segmentOf(entry) {
  if (!entry.name_base64) return encodeURIComponent(entry.name);
  return [...atob(entry.name_base64)]
    .map((byte) => `%${byte.charCodeAt(0).toString(16).padStart(2, '0')}`)
    .join('');
}

/* For people; bytes that are no text are shown as such. */
export function showPath(path) {
  return path
    .split('/')
    .map((segment) => {
      try {
        return decodeURIComponent(segment);
      } catch {
        return segment.replace(/%([0-7][0-9a-f])/gi, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
      }
    })
    .join('/');
}

/* --- requests -------------------------------------------------------------------------------------- */

/* The path is encoded already: it must not be once more. */
const at = (route, path, more = '') => `/v1/files${route}?path=${path}${more}`;
export const contentPath = (id, path) => handPath(id, at('/content', path));

export async function* listFiles(id, path, signal) {
  let after = '';
  do {
    const page = await getHand(id, at('/list', path, after), signal);
    yield page.entries;
    after = page.next === null || page.next === undefined ? '' : `&after=${encodeURIComponent(page.next)}`;
  } while (after);
}

export const makeDirectory = (id, path) => sendHand(id, 'POST', at('/directory', path));
export const removeFile = (id, path, recursive) =>
  sendHand(id, 'DELETE', at('', path, recursive ? '&recursive=true' : ''));
export const statFile = (id, path, signal) => getHand(id, at('/stat', path, '&follow=true'), signal);

/* Both names must be text: a JSON body has no other. */
export const moveFile = (id, from, to) =>
  sendHand(id, 'POST', '/v1/files/move', { from: decodeURIComponent(from), to: decodeURIComponent(to) });

export const readFile = (id, path, signal) => request('GET', contentPath(id, path), { signal });

/* Puts a Blob or text; progress(sent, total). match: what marks the content that it may replace; another
 * one is 412. The mark of what is there now. XMLHttpRequest, because fetch does not tell how far it is. */
export function writeFile(id, path, content, { progress, match, signal } = {}) {
  return new Promise((resolve, reject) => {
    const call = new XMLHttpRequest();
    call.open('PUT', contentPath(id, path));
    for (const [name, value] of Object.entries(keyHeader())) call.setRequestHeader(name, value);
    call.setRequestHeader('Content-Type', 'application/octet-stream');
    if (match) call.setRequestHeader('If-Match', match);
    call.upload.onprogress = ({ loaded, total }) => progress?.(loaded, total);
    call.onload = () =>
      call.status < 300
        ? resolve(call.getResponseHeader('ETag') ?? '')
        : reject(new ApiError(call.status, detailOf(call)));
    call.onerror = () => reject(new Error('The upload broke off.'));
    call.onabort = () => reject(new DOMException('cancelled', 'AbortError'));
    signal?.addEventListener('abort', () => call.abort(), { once: true });
    call.send(content);
  });
}

function detailOf(call) {
  try {
    return JSON.parse(call.responseText).detail;
  } catch {
    return `The service answered ${call.status}.`;
  }
}
