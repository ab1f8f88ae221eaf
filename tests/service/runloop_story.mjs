// What users do with Runloop's own TypeScript SDK: node runloop_story.mjs DIRECTORY-OF-THE-PACKAGES http2|http1
// Of the generation that OpenHands pins (0.44) there is the generated client alone.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const { RunloopSDK, Runloop, toFile } = require('@runloop/api-client')

async function objects(sdk) {
  // The quick start of the vendor's README, but for the server, which there comes from npm.
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
}

async function eventually(holds) {
  const end = Date.now() + 60_000
  while (!(await holds())) {
    assert.ok(Date.now() < end, String(holds))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

const options = {
  bearerToken: process.env.RUNLOOP_API_KEY, // This is the default and can be omitted
  ...(process.argv[3] === 'http1' ? { http2: false } : {}),
}
const sdk = RunloopSDK && new RunloopSDK(options)
if (sdk) await objects(sdk)

// The generated client.
const api = sdk?.api ?? new Runloop(options)
const made = await api.devboxes.create({ name: 'api', metadata: { a: '1' } })
if (api.devboxes.awaitRunning) await api.devboxes.awaitRunning(made.id)
else await eventually(async () => (await api.devboxes.retrieve(made.id)).status === 'running')
const ids = []
for await (const one of api.devboxes.list({ limit: 1 })) ids.push(one.id)
assert.ok(ids.includes(made.id))
assert.equal((await api.devboxes.executeSync(made.id, { command: 'printf sync' })).stdout, 'sync')
const begun = await api.devboxes.executeAsync(made.id, { command: 'echo a; sleep 0.2; echo b; exit 3' })
const ended = async () => (await api.devboxes.executions.retrieve(made.id, begun.execution_id)).status === 'completed'
await eventually(ended)
const told = await api.devboxes.executions.retrieve(made.id, begun.execution_id)
assert.deepEqual([told.stdout, told.exit_status], ['a\nb\n', 3])
const runs = await api.devboxes.executeAsync(made.id, { command: 'sleep 1000' })
await api.devboxes.executions.kill(made.id, runs.execution_id)
assert.equal((await api.devboxes.executions.retrieve(made.id, runs.execution_id)).exit_status, 137)
await api.devboxes.writeFileContents(made.id, { file_path: 'a/b.txt', contents: 'text' })
assert.equal(await api.devboxes.readFileContents(made.id, { file_path: 'a/b.txt' }), 'text')
const bytes = Buffer.alloc(1 << 20, 'y')
await api.devboxes.uploadFile(made.id, { path: 'up.bin', file: await toFile(bytes, 'up.bin') })
const back = await api.devboxes.downloadFile(made.id, { path: '/home/user/up.bin' })
assert.ok(Buffer.from(await back.arrayBuffer()).equals(bytes))
await assert.rejects(api.devboxes.readFileContents(made.id, { file_path: 'none' }), Runloop.NotFoundError)
if (api.devboxes.createTunnel) assert.match((await api.devboxes.createTunnel(made.id, { port: 8080 })).url, /^http:\/\/8080-[0-9a-z]{42}\.localhost:/)
await api.devboxes.keepAlive(made.id)
await api.devboxes.suspend(made.id)
await eventually(async () => (await api.devboxes.retrieve(made.id)).status === 'suspended')
await api.devboxes.resume(made.id)
await eventually(async () => (await api.devboxes.retrieve(made.id)).status === 'running')
const kept = await api.devboxes.snapshotDisk(made.id, { name: 'kept' })
const copy = await api.devboxes.create({ snapshot_id: kept.id })
await eventually(async () => (await api.devboxes.retrieve(copy.id)).status === 'running')
assert.equal(await api.devboxes.readFileContents(copy.id, { file_path: 'a/b.txt' }), 'text')
await api.devboxes.shutdown(copy.id)
await api.devboxes.diskSnapshots.delete(kept.id)
const layer = await api.blueprints.create({ name: 'generated', system_setup_commands: ['echo t >tool'] })
await eventually(async () => (await api.blueprints.retrieve(layer.id)).status === 'build_complete')
await api.blueprints.delete(layer.id)
await api.devboxes.shutdown(made.id)
await assert.rejects(api.devboxes.retrieve(made.id), Runloop.NotFoundError)
console.log('done')
process.exit(0)
