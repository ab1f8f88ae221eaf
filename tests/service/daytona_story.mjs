// What users do with Daytona's own JavaScript SDK: node daytona_story.mjs DIRECTORY-OF-THE-PACKAGES
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const { Daytona, Image } = require('@daytonaio/sdk')

if (process.argv[3] === 'servers') {
  const sandbox = await new Daytona().create({ snapshot: 'servers' })
  await sandbox.fs.createFolder('project', '755')
  await sandbox.fs.uploadFile(Buffer.from('class Thing {\n  methodOne() { return 1 }\n}\nnew Thing().m\n'), 'project/a.ts')
  const server = await sandbox.createLspServer('typescript', '/home/daytona/project')
  await server.start()
  await server.didOpen('/home/daytona/project/a.ts')
  assert.ok((await server.documentSymbols('/home/daytona/project/a.ts')).some((one) => one.name === 'methodOne'))
  const found = await server.completions('/home/daytona/project/a.ts', { line: 3, character: 13 })
  assert.ok(found.items.some((one) => one.label === 'methodOne'))
  await server.stop()
  await sandbox.delete()
  console.log('done')
  process.exit(0)
}

// The quick start of the vendor's README.
const daytona = new Daytona()
const sandbox = await daytona.create({ language: 'python', envVars: { A: '1' }, labels: { app: 'story' }, autoStopInterval: 0 })
const newer = 'fork' in sandbox // than the generation that OpenHands pins
const hello = await sandbox.process.codeRun('print("Hello World!")')
assert.deepEqual([hello.exitCode, hello.result], [0, 'Hello World!\n'])

const result = await sandbox.process.executeCommand('echo $A $Q; pwd; exit 3', '/tmp', { Q: '2' }, 20)
assert.deepEqual([result.exitCode, result.result], [3, '1 2\n/tmp\n'])

await sandbox.fs.createFolder('data', '755')
await sandbox.fs.uploadFile(Buffer.from('text'), 'data/a.txt')
await sandbox.fs.uploadFiles([1, 2, 3].map((i) => ({ source: Buffer.from(`file ${i}`), destination: `data/${i}.txt` })))
assert.equal((await sandbox.fs.downloadFile('data/a.txt')).toString(), 'text')
await sandbox.fs.uploadFile(Buffer.from('named'), 'data/\u00e4 \u20ac.txt')
assert.equal((await sandbox.fs.downloadFile('data/\u00e4 \u20ac.txt')).toString(), 'named')
await sandbox.fs.deleteFile('data/\u00e4 \u20ac.txt')
assert.deepEqual((await sandbox.fs.listFiles('data')).map((e) => e.name).sort(), ['1.txt', '2.txt', '3.txt', 'a.txt'])
await sandbox.fs.moveFiles('data/a.txt', 'data/b.txt')
assert.equal((await sandbox.fs.getFileDetails('data/b.txt')).size, 4)
assert.equal((await sandbox.fs.findFiles('data', 'file 2'))[0].line, 1)
assert.equal((await sandbox.fs.searchFiles('data', '*.txt')).files.length, 4)
await sandbox.fs.deleteFile('data/b.txt')
await assert.rejects(sandbox.fs.downloadFile('data/b.txt'))

await sandbox.process.createSession('s1')
await sandbox.process.executeSessionCommand('s1', { command: 'cd /tmp; export V=kept' })
const done = await sandbox.process.executeSessionCommand('s1', { command: 'pwd; echo $V; echo err >&2' })
if (newer) assert.deepEqual([done.exitCode, done.stdout, done.stderr], [0, '/tmp\nkept\n', 'err\n'])
else assert.deepEqual([done.exitCode, done.output.replace('err\n', ''), done.output.length], [0, '/tmp\nkept\n', 14]) // which stream comes first nobody knows
const slow = await sandbox.process.executeSessionCommand('s1', { command: 'echo one; sleep 0.5; echo two', runAsync: true })
let seen = ''
await sandbox.process.getSessionCommandLogs('s1', slow.cmdId, (text) => { seen += text }, () => {})
assert.equal(seen, 'one\ntwo\n')
await sandbox.process.deleteSession('s1')

if (newer) {
  let screen = ''
  const pty = await sandbox.process.createPty({ id: 'p1', cols: 80, rows: 24, onData: (d) => { screen += new TextDecoder().decode(d) } })
  await pty.waitForConnection()
  await pty.sendInput('echo terminal; exit\n')
  await pty.wait()
  assert.match(screen, /terminal/)
}

await sandbox.process.executeCommand('git init -q --bare -b main up')
await sandbox.git.clone('/home/daytona/up', 'work')
await sandbox.fs.uploadFile(Buffer.from('text'), 'work/a.txt')
await sandbox.git.add('work', ['a.txt'])
assert.equal((await sandbox.git.status('work')).fileStatus[0].staging, 'Added')
const commit = await sandbox.git.commit('work', 'first', 'Ann', 'ann@example.org')
assert.match(commit.sha, /^[0-9a-f]{40}$/)
await sandbox.git.push('work')
assert.deepEqual((await sandbox.git.branches('work')).branches, ['main'])

const snapshot = `story-${Date.now()}`
if (newer) {
  const fork = await sandbox.fork()
  assert.equal((await fork.fs.downloadFile('data/1.txt')).toString(), 'file 1')
  await fork.delete()
  await sandbox.createSnapshot(snapshot)
  const copy = await daytona.create({ snapshot })
  assert.equal((await copy.fs.downloadFile('data/2.txt')).toString(), 'file 2')
  await copy.delete()
  await daytona.snapshot.delete(await daytona.snapshot.get(snapshot))
}

const image = Image.base('debian:12').env({ A: 'of the image' }).workdir('/srv').runCommands('echo $A >a; echo built')
let said = ''
await daytona.snapshot.create({ name: `image-${snapshot}`, image }, { onLogs: (text) => { said += text } })
assert.match(said, /built/)
const built = await daytona.create({ snapshot: `image-${snapshot}` })
assert.equal((await built.process.executeCommand('pwd; cat a; echo $A')).result, '/srv\nof the image\nof the image\n')
await built.delete()
await daytona.snapshot.delete(await daytona.snapshot.get(`image-${snapshot}`))
said = ''
const made = await daytona.create({ image }, { onSnapshotCreateLogs: (text) => { said += text } })
assert.match(said, /built/)
assert.equal((await made.process.executeCommand('cat a')).result, 'of the image\n')
await made.delete()

const volume = await daytona.volume.get('data', true)
assert.deepEqual([volume.name, volume.state], ['data', 'ready'])
const mounted = await daytona.create({ volumes: [{ volumeId: volume.id, mountPath: '/mnt/it', subpath: 'a/b' }] })
assert.equal((await mounted.process.executeCommand('echo kept >/mnt/it/file; cat /mnt/it/file')).result, 'kept\n')
await assert.rejects(daytona.volume.delete(volume))
await mounted.delete()
await daytona.volume.delete(volume)
assert.deepEqual(await daytona.volume.list(), [])

if (newer && process.argv[3] === 'kernels') {
  assert.equal((await sandbox.codeInterpreter.runCode('x = 6 * 7; print(x)')).stdout, '42\n')
  assert.equal((await sandbox.codeInterpreter.runCode('1/0')).error.name, 'ZeroDivisionError')
}

const found = []
const labels = { app: 'story' }
for await (const one of newer ? daytona.list({ labels }) : await daytona.list(labels)) found.push(one.id)
assert.deepEqual(found, [sandbox.id])
const link = await sandbox.getPreviewLink(3000)
assert.ok(link.url && link.token)
await sandbox.stop()
await sandbox.start()
assert.equal((await sandbox.process.executeCommand('echo again')).result, 'again\n')
await sandbox.delete()
console.log('done')
process.exit(0)
