/* Bytes that we hold -> a file of the person's own. */
import { h } from '../base/dom.js';

export function saveBlob(blob, name) {
  const address = URL.createObjectURL(blob);
  h('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}
