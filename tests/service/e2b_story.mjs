// What users do with E2B's own JavaScript SDK: node e2b_story.mjs DIRECTORY-OF-THE-PACKAGES
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const { Sandbox, CommandExitError, FileNotFoundError } = require('e2b')

// The quick start of the vendor's README.
const sandbox = await Sandbox.create({ timeoutMs: 120_000, metadata: { app: 'story' }, envs: { A: '1' } })
const hello = await sandbox.commands.run('echo "Hello from E2B!"')
assert.equal(hello.stdout, 'Hello from E2B!\n')

const result = await sandbox.commands.run('echo $A; echo err >&2', { cwd: '/tmp' })
assert.deepEqual([result.stdout, result.stderr, result.exitCode], ['1\n', 'err\n', 0])
await assert.rejects(sandbox.commands.run('exit 3'), (e) => e instanceof CommandExitError && e.exitCode === 3)

await sandbox.files.write('a/b.txt', 'text')
assert.equal(await sandbox.files.read('a/b.txt'), 'text')
await sandbox.files.write([{ path: 'c', data: '1' }, { path: 'd', data: '2' }])
assert.deepEqual((await sandbox.files.list('a')).map((e) => e.path), ['/home/user/a/b.txt'])
assert.equal(await sandbox.files.makeDir('n'), true)
assert.equal(await sandbox.files.makeDir('n'), false)
assert.equal((await sandbox.files.rename('c', 'n/e')).path, '/home/user/n/e')
await sandbox.files.remove('n')
await assert.rejects(sandbox.files.read('n/e'), FileNotFoundError)
const link = await sandbox.downloadUrl('d', { useSignatureExpiration: 60_000 })
assert.equal(await (await fetch(link)).text(), '2')

await sandbox.files.makeDir('w')
const seen = new Promise((resolve) => sandbox.files.watchDir('w', (event) => resolve(event)))
const writing = setInterval(() => sandbox.files.write('w/x', String(Math.random())), 200)
assert.equal((await seen).name, 'x')
clearInterval(writing)
if (sandbox.createSnapshot) { // not in 2.9
  await sandbox.files.makeDir('v')
  let written
  const entry = new Promise((resolve) => { written = resolve })
  const handle = await sandbox.files.watchDir('v', (event) => { if (event.entry?.metadata) written(event.entry) }, { includeEntry: true })
  await sandbox.files.write('v/x', 'abc', { metadata: { Key: 'value' } })
  const told = await entry
  assert.deepEqual([told.path, told.size, told.metadata], ['/home/user/v/x', 3, { key: 'value' }])
  await handle.stop()
  assert.deepEqual((await sandbox.files.getInfo('v/x')).metadata, { key: 'value' })
}

const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
await sandbox.commands.sendStdin(cat.pid, 'typed\n')
if (sandbox.commands.closeStdin) {
  await sandbox.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'typed\n')
} else {
  assert.equal(await cat.kill(), true)
}

let screen = ''
const pty = await sandbox.pty.create({ cols: 80, rows: 24, onData: (d) => { screen += new TextDecoder().decode(d) } })
await sandbox.pty.resize(pty.pid, { cols: 100, rows: 30 })
await sandbox.pty.sendInput(pty.pid, new TextEncoder().encode('stty size; exit\n'))
await pty.wait()
assert.match(screen, /30 100/)

const list = await Sandbox.list({ query: { metadata: { app: 'story' } } }).nextItems()
assert.deepEqual(list.map((one) => one.sandboxId), [sandbox.sandboxId])
await sandbox.setTimeout(300_000)
await (sandbox.pause ?? sandbox.betaPause).call(sandbox)
assert.equal(await sandbox.isRunning(), false)
const woken = await Sandbox.connect(sandbox.sandboxId)
assert.equal((await woken.commands.run('echo again')).stdout, 'again\n')
const snapshot = woken.createSnapshot && await woken.createSnapshot()
assert.equal(await Sandbox.kill(woken.sandboxId), true)
if (snapshot) {
  const later = await Sandbox.create(snapshot.snapshotId)
  assert.equal(await later.files.read('a/b.txt'), 'text')
  await later.kill()
  assert.equal(await Sandbox.deleteSnapshot(snapshot.snapshotId), true)
}
assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
console.log('done')
process.exit(0)
