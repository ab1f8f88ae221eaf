// The MCP gateway by E2B's own JavaScript SDK, with a published server and client: node e2b_gateway.mjs PACKAGES MCP-PACKAGES
import assert from 'node:assert/strict'
import dns from 'node:dns'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const [packages, mcp] = process.argv.slice(2)
const { Sandbox } = createRequire(pathToFileURL(`${packages}/`))('e2b')
const sdk = `${mcp}/node_modules/@modelcontextprotocol/sdk/dist/esm/client`
const { Client } = await import(`${sdk}/index.js`)
const { StreamableHTTPClientTransport } = await import(`${sdk}/streamableHttp.js`)

// Names below localhost are this machine, as browsers have it.
const lookup = dns.lookup
dns.lookup = (name, options, done) => lookup(name.endsWith('.localhost') ? '127.0.0.1' : name, options, done)

const program = `${mcp}/node_modules/@modelcontextprotocol/server-everything/dist/index.js`
const sandbox = await Sandbox.create('published', { mcp: { everything: { runCmd: `node ${program} stdio` } } })
const url = new URL(sandbox.getMcpUrl().replace('https:', 'http:'))
const token = await sandbox.getMcpToken()
const headers = { Authorization: `Bearer ${token}` }
const client = new Client({ name: 'story', version: '1' })
await client.connect(new StreamableHTTPClientTransport(url, { requestInit: { headers } }))
assert.ok((await client.listTools()).tools.some((tool) => tool.name === 'echo'))
const said = await client.callTool({ name: 'echo', arguments: { message: 'hello' } })
assert.equal(said.content[0].text, 'Echo: hello')
await client.close()
const other = new Client({ name: 'other', version: '1' })
await assert.rejects(other.connect(new StreamableHTTPClientTransport(url)))
await sandbox.kill()
await assert.rejects(Sandbox.create({ mcp: { browserbase: { apiKey: 'x' } } }), (e) => /mcp-server-browserbase/.test(e.stderr ?? e.message))
console.log('done')
process.exit(0)
