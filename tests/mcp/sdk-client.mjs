// sdk-client.mjs SDK TRANSPORT URL: the published client, driven by lines of JSON {method, args} on stdin.
// Each is answered by one line: {result} or {error}; notifications so far are the result of "said".
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [sdk, transport, url] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(`${sdk}/dist/esm/${path}`));
const { Client } = await load("client/index.js");
const types = await load("types.js");
const transports = {
  http: ["client/streamableHttp.js", "StreamableHTTPClientTransport"],
  sse: ["client/sse.js", "SSEClientTransport"],
};
const [file, name] = transports[transport];
const Transport = (await load(file))[name];

const said = [];
const client = new Client(
  { name: "sdk-client", version: "1" },
  { capabilities: { sampling: {}, elicitation: {}, roots: {} } },
);
client.fallbackNotificationHandler = async (message) => {
  said.push(message);
};
client.setRequestHandler(types.CreateMessageRequestSchema, async (request) => ({
  model: "none",
  role: "assistant",
  content: { type: "text", text: `sampled ${request.params.messages.length}` },
}));
client.setRequestHandler(types.ElicitRequestSchema, async () => ({ action: "decline" }));
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots: [] }));

const methods = {
  connect: () => client.connect(new Transport(new URL(url))),
  version: () => client.getServerVersion(),
  said: () => said,
  list: async () => (await client.listTools()).tools.map((tool) => tool.name),
  call: async ({ progress, ...call }) => {
    const steps = [];
    const options = progress ? { onprogress: (step) => steps.push(step) } : {};
    return { ...(await client.callTool(call, undefined, options)), steps };
  },
  prompts: () => client.listPrompts(),
  prompt: (args) => client.getPrompt(args),
  resources: () => client.listResources(),
  templates: () => client.listResourceTemplates(),
  read: (args) => client.readResource(args),
  complete: (args) => client.complete(args),
  level: (level) => client.setLoggingLevel(level),
  subscribe: (args) => client.subscribeResource(args),
  ping: () => client.ping(),
  abort: async (call) => {
    const stop = new AbortController();
    const called = client.callTool(call, undefined, { signal: stop.signal });
    stop.abort("enough");
    return called.then(
      () => "finished",
      (error) => String(error.message ?? error),
    );
  },
  close: () => client.close(),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { method, args } = JSON.parse(line);
  let answer;
  try {
    answer = { result: (await methods[method](args)) ?? null };
  } catch (error) {
    answer = { error: String(error.message), code: error.code ?? null };
  }
  console.log(JSON.stringify(answer));
}
process.exit(0);
