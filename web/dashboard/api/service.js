/* The native interface of the service, /v1, call by call: no other file knows its addresses. */
import { getJson, query, request, send } from './client.js';

const box = (id, rest = '') => `/v1/sandboxes/${encodeURIComponent(id)}${rest}`;

/* Who the key belongs to, and whether that is an administrator. */
export async function getMe(options) {
  const me = await getJson('/v1/me', options);
  return { ...me, admin: me.scopes.includes('admin') };
}

/* What the command line or another window put into the address, for something that works like a key. */
export async function exchangeTicket(ticket) {
  return (await send('POST', '/dashboard/login', { ticket }, { key: '' })).key;
}

/* An address that signs in whoever opens it within a minute. */
export const makeLink = () => send('POST', '/dashboard/link');

export const getInfo = (options) => getJson('/v1/info', options);
export const getSecurity = (options) => getJson('/v1/security', options);

export const getBox = (id, signal) => getJson(box(id), { signal });
export const watchPath = () => '/v1/watch';

/* A repeated request with the same attempt is the same request: it does not happen twice.
 * (crypto.randomUUID is missing where a page comes over plain HTTP from another machine.) */
export function newAttempt() {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}

export const createBox = (wish, attempt) =>
  send('POST', '/v1/sandboxes', wish, { headers: { 'Idempotency-Key': attempt } });
export const renameBox = (id, name) => send('PATCH', box(id), { name });
export const deleteBox = (id) => send('DELETE', box(id));
/* order: pause, resume, stop */
export const orderBox = (id, order) => send('POST', box(id, `/${order}`));
export const forkBox = (id, wish) => send('POST', box(id, '/fork'), wish);

export const getEvents = (id, parameters, signal) =>
  getJson(box(id, `/events${query(parameters)}`), { signal });
export const eventsPath = (id, parameters) => box(id, `/events${query(parameters)}`);
export const actOn = (id, action, attempt, signal) =>
  send('POST', box(id, '/actions'), { action }, { signal, headers: { 'Idempotency-Key': attempt } });

/* Actions that wait for their confirmation; answer: confirm or reject. */
export const getPending = (id, signal) => getJson(box(id, '/pending'), { signal });
/* rule: of a connection that waits, a rule that allows it is added. */
export const answerPending = (id, number, answer, rule = false) =>
  send('POST', box(id, `/pending/${number}`), { answer, ...(rule && { rule }) });

export const getNetwork = (id, signal) => getJson(box(id, '/network'), { signal });
export const allowNetwork = (id, rule) => send('PATCH', box(id, '/network'), { allow: [rule] });

export const getUsage = (id, signal) => getJson(box(id, '/usage'), { signal });
export const logsPath = (id, parameters) => box(id, `/logs${query(parameters)}`);
export const getPorts = (id, signal) => getJson(box(id, '/ports'), { signal });
export const openPort = (id, port) => send('POST', box(id, `/ports/${port}`));

export const getSnapshots = (id, signal) => getJson(box(id, '/snapshots'), { signal });
export const takeSnapshot = (id, name) => send('POST', box(id, '/snapshots'), { name });
export const removeSnapshot = (id, name) => send('DELETE', box(id, `/snapshots/${encodeURIComponent(name)}`));
export const rollBack = (id, name) =>
  send('POST', box(id, `/snapshots/${encodeURIComponent(name)}/rollback`));

export const terminalPath = (id, name, offset) =>
  box(id, `/terminals/${encodeURIComponent(name)}${query({ offset })}`);
export const handPath = (id, path) => box(id, `/hand${path}`);
export const getHand = (id, path, signal) => getJson(handPath(id, path), { signal });
export const sendHand = (id, method, path, json) => send(method, handPath(id, path), json);

export const getTemplates = (signal) => getJson('/v1/templates', { signal });
export const getPools = (signal) => getJson('/v1/pools', { signal });
export const setPool = (name, wish) => send('PUT', `/v1/pools/${encodeURIComponent(name)}`, wish);
export const removePool = (name) => send('DELETE', `/v1/pools/${encodeURIComponent(name)}`);
export const getKeys = (signal) => getJson('/v1/keys', { signal });
export const createKey = (wish) => send('POST', '/v1/keys', wish);
export const changeKey = (id, wish) => send('PATCH', `/v1/keys/${encodeURIComponent(id)}`, wish);
export const revokeKey = (id) => send('DELETE', `/v1/keys/${encodeURIComponent(id)}`);

/* An address that gives the file to whoever opens it first, within a minute. */
export async function downloadPath(id, path, signal) {
  const wish = { sandbox: id, purpose: 'download', path };
  const { ticket } = await send('POST', '/v1/tickets', wish, { signal });
  return box(id, `/download${query({ path, ticket })}`);
}

export async function ticketFor(id, signal) {
  return (await send('POST', '/v1/tickets', { sandbox: id, purpose: 'ws' }, { signal })).ticket;
}
