/* A file of a sandbox -> a file of the person's own: the browser itself fetches it, whatever its size. */
import { h } from '../base/dom.js';
import { readFile } from '../api/files.js';
import { downloadPath } from '../api/service.js';

const open = (address, name) => h('a', { href: address, download: name }).click();

/* path is percent-encoded. */
export async function downloadFile(id, path, name, signal) {
  let text;
  try {
    text = decodeURIComponent(path);
  } catch {
    /* A name that is no text cannot be asked for in JSON: by way of memory. */
    const address = URL.createObjectURL(await (await readFile(id, path, signal)).blob());
    open(address, name);
    setTimeout(() => URL.revokeObjectURL(address), 60000);
    return;
  }
  open(await downloadPath(id, text, signal), name);
}
