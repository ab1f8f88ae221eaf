// What users do with Runloop's own TypeScript SDK: node runloop_story.mjs DIRECTORY-OF-THE-PACKAGES http2|http1
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const { RunloopSDK, Runloop, toFile } = require('@runloop/api-client')

// The quick start of the vendor's README, but for the server, which there comes from npm.
const sdk = new RunloopSDK({
  bearerToken: process.env.RUNLOOP_API_KEY, // This is the default and can be omitted
  ...(process.argv[3] === 'http1' ? { http2: false } : {}),
})
const devbox = await sdk.devbox.create()
const result = await devbox.cmd.exec('echo "Hello, World!"')
assert.equal(await result.stdout(), 'Hello, World!\n')
assert.equal(result.exitCode, 0)
const serverExec = await devbox.cmd.execAsync('exec python3 -m http.server 8080')
const state = await serverExec.getState()
assert.equal(state.status, 'running')
await serverExec.kill()
const logs = await devbox.logs()
assert.ok(logs.logs.some((entry) => entry.message === 'Hello, World!'))

// Commands.
const failed = await devbox.cmd.exec('echo err >&2; exit 3')
assert.deepEqual([await failed.stderr(), failed.exitCode, failed.failed], ['err\n', 3, true])
const said = []
const streamed = await devbox.cmd.exec('for i in 1 2 3; do echo $i; sleep 0.1; done', { stdout: (line) => said.push(line) })
assert.deepEqual([said.join('').replaceAll('\n', ''), streamed.exitCode], ['123', 0])
const long = await devbox.cmd.exec('seq 300000')
assert.ok((await long.stdout()).endsWith('299999\n300000\n'))
assert.equal(await long.stdout(1), '300000')
const slow = await devbox.cmd.execAsync('sleep 1; echo late')
assert.equal(await (await slow.result()).stdout(), 'late\n')
const shell = devbox.shell('kept')
await shell.exec('cd /tmp; X=1')
assert.equal(await (await shell.exec('pwd; echo $X')).stdout(), '/tmp\n1\n')

// Files.
await devbox.file.write({ file_path: 'a/b.txt', contents: 'text' })
assert.equal(await devbox.file.read({ file_path: 'a/b.txt' }), 'text')
const content = Buffer.alloc(1 << 20, 'x')
await devbox.file.upload({ path: 'up.bin', file: await toFile(content, 'up.bin') })
const download = await devbox.file.download({ path: '/home/user/up.bin' })
assert.ok(Buffer.from(await download.arrayBuffer()).equals(content))
await assert.rejects(devbox.file.read({ file_path: 'none' }), Runloop.NotFoundError)

// Life.
assert.equal((await devbox.getInfo()).status, 'running')
const tunnel = await devbox.net.enableTunnel({ auth_mode: 'open' })
assert.equal(await devbox.getTunnelUrl(8080), `https://8080-${tunnel.tunnel_key}.tunnel.127.0.0.1`)
await devbox.net.removeTunnel()
await devbox.keepAlive()
await devbox.suspend()
await devbox.awaitSuspended()
await devbox.resume()
assert.equal(await devbox.file.read({ file_path: 'a/b.txt' }), 'text')

// Many at once, over few connections.
const all = await Promise.all([...Array(20).keys()].map((i) => devbox.cmd.exec(`echo ${i}`)))
assert.deepEqual(await Promise.all(all.map((one) => one.stdout())), [...Array(20).keys()].map((i) => `${i}\n`))

// Snapshots and blueprints.
const snapshot = await devbox.snapshotDisk({ name: 'one' })
await devbox.shutdown()
const again = await sdk.devbox.createFromSnapshot(snapshot.id)
assert.equal(await again.file.read({ file_path: 'a/b.txt' }), 'text')
assert.ok((await sdk.devbox.list({ status: 'running' })).some((one) => one.id === again.id))
assert.ok((await sdk.snapshot.list()).some((one) => one.id === snapshot.id))
await snapshot.delete()
await again.shutdown()
const blueprint = await sdk.blueprint.create({ name: 'tools', system_setup_commands: ['echo t >tool'] })
const built = await blueprint.createDevbox()
assert.equal(await built.file.read({ file_path: 'tool' }), 't\n')
await built.shutdown()
await blueprint.delete()

// Objects.
const stored = await sdk.storageObject.uploadFromText('hellö', 'greeting.txt')
assert.equal(await stored.downloadAsText(), 'hellö')
const mounted = await sdk.devbox.create({ mounts: [{ type: 'object_mount', object_id: stored.id, object_path: '/tmp/put.txt' }] })
assert.equal(await mounted.file.read({ file_path: '/tmp/put.txt' }), 'hellö')
await mounted.shutdown()
assert.ok((await sdk.storageObject.list()).some((one) => one.id === stored.id))
await stored.delete()
await assert.rejects(stored.getInfo(), Runloop.NotFoundError)

// The generated client.
const api = sdk.api
const made = await api.devboxes.create({ name: 'api', metadata: { a: '1' } })
await api.devboxes.awaitRunning(made.id)
const ids = []
for await (const one of api.devboxes.list({ limit: 1 })) ids.push(one.id)
assert.ok(ids.includes(made.id))
assert.equal((await api.devboxes.executeSync(made.id, { command: 'printf sync' })).stdout, 'sync')
await api.devboxes.shutdown(made.id)
await assert.rejects(api.devboxes.retrieve(made.id), Runloop.NotFoundError)
console.log('done')
process.exit(0)
