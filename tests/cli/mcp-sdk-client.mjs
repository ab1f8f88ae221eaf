// Uses `tendon mcp` through the published SDK: PEERS PROGRAM-OR-URL; prints what it saw as JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [peers, where] = process.argv.slice(2);
const require = createRequire(`${peers}/package.json`);
const load = (path) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));

const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const { StreamableHTTPClientTransport } = await load("client/streamableHttp.js");

const transport = where.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(where), {
      requestInit: { headers: { Authorization: `Bearer ${process.env.KEY}` } },
    })
  : new StdioClientTransport({ command: where, args: ["mcp"], env: process.env });

const client = new Client({ name: "published", version: "1" });
await client.connect(transport);
const call = (name, args, options) =>
  client.callTool({ name, arguments: args }, undefined, options);
const text = (result) => result.content.map((block) => block.text ?? "").join("");

let progress = 0;
let told;
const onprogress = ({ message }) => {
  progress++;
  told ??= message;
};
const slow = "echo on its way; until [ -e go ]; do sleep 0.1; done; echo from the sandbox";
await client.listTools(); // with the schemas, by which it checks results from here on
const running = call("shell", { command: slow, session: "slow" }, { onprogress });
while (!told) await new Promise((resolve) => setTimeout(resolve, 50));
await call("shell", { command: "touch go" });
const shell = text(await running);
await call("write_file", { path: "f.txt", content: "text" });
const { resources } = await client.listResources();
const uri = resources.find((resource) => resource.name === "f.txt").uri;
const file = (await client.readResource({ uri })).contents[0].text;

console.log(
  JSON.stringify({
    server: client.getServerVersion().name,
    tools: (await client.listTools()).tools.map((tool) => tool.name),
    shell,
    file,
    progress,
    told,
    wrong: (await call("shell", {})).isError,
  }),
);
await client.close();
