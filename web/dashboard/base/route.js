/* Addresses within the page: "#/sandboxes/ID/files?path=/tmp" <-> { parts, query }. */

export function parseRoute(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split('?', 2);
  const decode = (part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  };
  return { parts: path.split('/').filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

export function routeTo(parts, query) {
  const path = parts.map(encodeURIComponent).join('/');
  const text = query ? new URLSearchParams(query).toString() : '';
  return `#/${path}${text ? `?${text}` : ''}`;
}

export function go(parts, query) {
  location.hash = routeTo(parts, query);
}

/* Another address for the same view: no step in the history, nothing is drawn anew. */
export function noteRoute(parts, query) {
  history.replaceState(history.state, '', routeTo(parts, query));
}
