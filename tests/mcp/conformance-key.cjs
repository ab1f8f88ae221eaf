// Loaded into the conformance suite, which knows no keys of servers: every request gets that of $SUITE_KEY.
const { createRequire } = require("node:module");
const http = require("node:http");

const bearer = `Bearer ${process.env.SUITE_KEY}`;

const fetchBefore = globalThis.fetch;
globalThis.fetch = (to, how = {}) => {
  const headers = new Headers(how.headers ?? (to instanceof Request ? to.headers : undefined));
  headers.set("Authorization", bearer);
  return fetchBefore(to, { ...how, headers });
};

const requestBefore = http.request;
http.request = (...args) => {
  const request = requestBefore(...args);
  request.setHeader("Authorization", bearer);
  return request;
};

const undici = createRequire(process.env.SUITE)("undici");
const undiciBefore = undici.request;
undici.request = (to, how = {}) => undiciBefore(to, { ...how, headers: { ...how.headers, Authorization: bearer } });
