// What users do with Modal's own JavaScript SDK: node modal_story.mjs DIRECTORY-OF-THE-PACKAGES
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const sdk = require('modal')
const { ModalClient, NotFoundError, AlreadyExistsError, SandboxFilesystemNotFoundError } = sdk

// The generation that OpenHands pins has no client: the same calls are functions of classes, variables are secrets.
const pinned = ModalClient ? null : {
  apps: { fromName: sdk.App?.lookup },
  images: sdk.Image,
  sandboxes: {
    create: async (app, image, { env, timeoutMs, tags, ...options } = {}) => app.createSandbox(image, {
      ...options, timeout: timeoutMs, ...(env ? { secrets: [await sdk.Secret.fromObject(env)] } : {}),
    }),
    fromId: sdk.Sandbox.fromId, fromName: sdk.Sandbox.fromName, list: sdk.Sandbox.list,
  },
  secrets: sdk.Secret,
}
const run = async (box, words, { env, ...options } = {}) =>
  box.exec(words, env && pinned ? { ...options, secrets: [await sdk.Secret.fromObject(env)] } : { ...options, ...(env ? { env } : {}) })

// The quick start of the vendor's README.
const modal = pinned ?? new ModalClient()
const app = await modal.apps.fromName('libmodal-example', { createIfMissing: true })
const image = modal.images.fromRegistry('alpine:3.21')
const sb = await modal.sandboxes.create(app, image, { command: ['cat'], tags: { team: 'blue' }, name: 'first' })
await sb.stdin.writeText('this is input that should be mirrored by cat')
await sb.stdin.close()
assert.equal(await sb.stdout.readText(), 'this is input that should be mirrored by cat')
assert.equal(await sb.wait(), 0)
await sb.terminate()

// Commands.
const box = await modal.sandboxes.create(app, image, {
  timeoutMs: 600_000, name: 'second', env: { A: 'b' }, encryptedPorts: [8000], unencryptedPorts: [8001],
})
assert.equal(await box.poll(), null)
const p = await run(box, ['sh', '-c', 'echo "$A $C"; echo err >&2; exit 3'], { env: { C: 'd' }, workdir: '/tmp' })
assert.deepEqual([await p.stdout.readText(), await p.stderr.readText(), await p.wait()], ['b d\n', 'err\n', 3])
const cat = await box.exec(['cat'])
await cat.stdin.writeText('one\n')
await cat.stdin.writeText('two\n')
await cat.stdin.close()
assert.deepEqual([await cat.stdout.readText(), await cat.wait()], ['one\ntwo\n', 0])
const raw = await box.exec(['printf', '\\377\\001'], { mode: 'binary' })
assert.deepEqual([...(await raw.stdout.readBytes())], [255, 1])
const killed = await box.exec(['sh', '-c', 'kill -9 $$'])
assert.equal(await killed.wait(), 137)
const many = await Promise.all([...Array(20).keys()].map(async (i) => {
  const one = await box.exec(['echo', `${i}`])
  return [await one.stdout.readText(), await one.wait()]
}))
assert.deepEqual(many, [...Array(20).keys()].map((i) => [`${i}\n`, 0]))

// Files.
if (box.filesystem) {
  const fs = box.filesystem
  await fs.writeText('some text', '/tmp/a/b.txt')
  assert.equal(await fs.readText('/tmp/a/b.txt'), 'some text')
  const large = Buffer.alloc(3 << 20, 'x')
  await fs.writeBytes(large, '/tmp/a/large')
  assert.ok(Buffer.from(await fs.readBytes('/tmp/a/large')).equals(large))
  assert.deepEqual((await fs.listFiles('/tmp/a')).map((e) => [e.name, e.type, e.size]), [['b.txt', 'file', 9], ['large', 'file', 3 << 20]])
  await assert.rejects(fs.readText('/tmp/none'), SandboxFilesystemNotFoundError)
  await fs.makeDirectory('/tmp/a/c/d')
  await assert.rejects(fs.remove('/tmp/a'))
  await fs.remove('/tmp/a', { recursive: true })
  await assert.rejects(fs.listFiles('/tmp/a'), SandboxFilesystemNotFoundError)
} else {
  const written = await box.open('/tmp/b.txt', 'w')
  await written.write(new TextEncoder().encode('some text'))
  await written.close()
  const read = await box.open('/tmp/b.txt', 'r')
  assert.equal(new TextDecoder().decode(await read.read()), 'some text')
  await read.close()
  await assert.rejects(box.open('/tmp/none', 'r'))
}

// Names, tags, lists.
await box.setTags({ team: 'red', step: '2' })
if (box.getTags) assert.deepEqual(await box.getTags(), { team: 'red', step: '2' })
assert.equal((await modal.sandboxes.fromName('libmodal-example', 'second')).sandboxId, box.sandboxId)
await assert.rejects(modal.sandboxes.fromName('libmodal-example', 'none'), NotFoundError)
await assert.rejects(modal.sandboxes.create(app, image, { name: 'second' }), AlreadyExistsError)
const ids = []
for await (const one of modal.sandboxes.list({ appId: app.appId, tags: { step: '2' } })) ids.push(one.sandboxId)
assert.deepEqual(ids, [box.sandboxId])
assert.equal((await modal.sandboxes.fromId(box.sandboxId)).sandboxId, box.sandboxId)

// Sandboxes of the second generation.
if (!pinned) {
  const { sandboxes } = modal
  const next = await sandboxes.experimentalCreate(app, image, { name: 'next', tags: { step: '3' } })
  const said = await next.exec(['echo', 'next'])
  assert.equal(await said.stdout.readText(), 'next\n')
  assert.equal((await sandboxes.experimentalFromName('libmodal-example', 'next')).sandboxId, next.sandboxId)
  await next.experimentalSetName('renamed')
  await assert.rejects(sandboxes.experimentalFromName('libmodal-example', 'next'), NotFoundError)
  const found = []
  for await (const one of sandboxes.experimentalList({ appId: app.appId, tags: { step: '3' } })) found.push(one.sandboxId)
  assert.deepEqual(found, [next.sandboxId])
  await assert.rejects(next.experimentalSnapshot(), /UNIMPLEMENTED/)
  await assert.rejects(next.createConnectToken(), /UNIMPLEMENTED/)
  await next.terminate({ wait: true })

  // Other lists for one that was made with some; a line fewer is one that is not reached any more.
  const fenced = await sandboxes.create(app, image, { outboundCidrAllowlist: ['8.8.8.0/24'], outboundDomainAllowlist: ['example.com'] })
  await fenced.updateNetworkPolicy({ outboundCidrAllowlist: ['8.8.4.0/24'], outboundDomainAllowlist: [] })
  await fenced.terminate({ wait: true })
  await assert.rejects(next.updateNetworkPolicy({ outboundCidrAllowlist: [], outboundDomainAllowlist: [] }))
  const open = await sandboxes.create(app, image)
  await open.updateNetworkPolicy({ outboundCidrAllowlist: [], outboundDomainAllowlist: [] })
  await open.terminate({ wait: true })
}

// Secrets.
await assert.rejects(modal.secrets.fromName('none'), NotFoundError)
const given = await box.exec(['printenv', 'S'], { secrets: [await modal.secrets.fromObject({ S: 'secret' })] })
assert.equal(await given.stdout.readText(), 'secret\n')

// Tunnels.
const tunnels = await box.tunnels()
assert.match(tunnels[8000].url, /^https:\/\/8000-[0-9a-z]{42}\.localhost/)
assert.equal(tunnels[8001].tcpSocket.length, 2)

// Images that are built, and snapshots.
const built = image.dockerfileCommands?.(['ENV GREETING=hello', 'WORKDIR /tmp/place', 'RUN echo "$GREETING" > /tmp/place/made'])
const third = await modal.sandboxes.create(app, built ?? image)
if (built) {
  const made = await third.exec(['sh', '-c', 'cat made; echo $GREETING'])
  assert.equal(await made.stdout.readText(), 'hello\nhello\n')
  await assert.rejects(modal.sandboxes.create(app, image.dockerfileCommands(['RUN exit 3'])))
} else {
  await (await third.exec(['sh', '-c', 'mkdir /tmp/place; echo hello > /tmp/place/made'])).wait()
}
await (await third.exec(['sh', '-c', 'echo more >> /tmp/place/made'])).wait()
const snapshot = await third.snapshotFilesystem()
const fourth = await modal.sandboxes.create(app, snapshot)
const kept = await fourth.exec(['cat', '/tmp/place/made'])
assert.equal(await kept.stdout.readText(), 'hello\nmore\n')
await modal.images.delete(snapshot.imageId)

for (const one of [box, third, fourth]) {
  await one.terminate({ wait: true })
  if (pinned) await one.wait() // does not know that option
}
assert.equal(await box.poll(), 137)
await assert.rejects(box.exec(['true']))
modal.close?.()
console.log('done')
process.exit(0)
