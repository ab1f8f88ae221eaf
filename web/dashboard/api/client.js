/* Requests to the service, with the key, and errors as sentences. */
import { session } from './session.js';

export class ApiError extends Error {
  constructor(status, detail, requestId = '') {
    super(detail);
    this.status = status;
    this.requestId = requestId;
  }
}

/* No answer at all: the service is down, or the way to it. */
export class Unreachable extends Error {
  constructor() {
    super('The service cannot be reached.');
  }
}

export function query(parameters = {}) {
  const given = Object.entries(parameters).filter(
    ([, value]) => value !== undefined && value !== null && value !== '',
  );
  const text = new URLSearchParams(given).toString();
  return text ? `?${text}` : '';
}

export function keyHeader(key = session.key) {
  return { Authorization: `Bearer ${key}` };
}

async function problemOf(response) {
  let body = {};
  try {
    body = JSON.parse(await response.text());
  } catch {
    /* Not every answer comes from the service itself. */
  }
  const detail = typeof body.detail === 'string' && body.detail ? body.detail : body.title;
  const text = detail || `The service answered ${response.status} ${response.statusText}`;
  return new ApiError(response.status, text, body.request_id ?? response.headers.get('X-Request-Id') ?? '');
}

/* The answer, if it is a good one; else ApiError or Unreachable (or the signal's reason). */
export async function request(method, path, { json, body, headers, key, signal, ...rest } = {}) {
  const init = {
    method,
    signal,
    headers: {
      ...(key === '' ? {} : keyHeader(key)),
      ...(json === undefined ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    body: json === undefined ? body : JSON.stringify(json),
    credentials: 'omit',
    cache: 'no-store',
    redirect: 'error',
    ...rest,
  };
  let response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable();
  }
  if (response.ok) return response;
  const problem = await problemOf(response);
  /* Only the service itself says how to sign in: a sandbox that answers 401 signs nobody out. */
  if (response.status === 401 && key === undefined && response.headers.has('WWW-Authenticate'))
    session.forget('The key is no longer accepted.');
  throw problem;
}

export async function getJson(path, options) {
  return (await request('GET', path, options)).json();
}

/* POST, PATCH, PUT, DELETE: the answer as JSON, or null when it has none. */
export async function send(method, path, json, options = {}) {
  const response = await request(method, path, { json, ...options });
  const text = await response.text();
  return text ? JSON.parse(text) : null;
}

export function isAbort(error) {
  return error?.name === 'AbortError';
}
