// Templates of a recipe by E2B's own JavaScript SDK: node e2b_templates.mjs DIRECTORY-OF-THE-PACKAGES
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const { Sandbox, Template, BuildError } = require('e2b')

// Names came with tags; before, a template had an alias among the options.
const build = (recipe, name, options) =>
  Template.assignTags ? Template.build(recipe, name, options) : Template.build(recipe, { ...options, alias: name })
const name = `story-${process.pid}`
const context = mkdtempSync(join(tmpdir(), 'e2b-'))
writeFileSync(join(context, 'one.txt'), 'one')
const lines = []
const recipe = Template({ fileContextPath: context })
  .fromBaseImage()
  .setEnvs({ GREETING: 'good morning' })
  .setWorkdir('/home/user/shop')
  .copy('one.txt', 'first.txt')
  .runCmd('echo $GREETING > said; echo told')
const info = await build(recipe, name, { onBuildLogs: (entry) => lines.push(entry.message) })
rmSync(context, { recursive: true })
assert.ok(lines.includes('told'), lines.join('\n'))
if (Template.exists) assert.equal(await Template.exists(name), true)
const sandbox = await Sandbox.create(name, { envs: { MORE: '1' } })
const result = await sandbox.commands.run('pwd; cat said first.txt; echo $GREETING$MORE')
assert.equal(result.stdout, '/home/user/shop\ngood morning\nonegood morning1\n')
assert.equal((await sandbox.getInfo()).templateId, info.templateId)
await sandbox.kill()
await assert.rejects(build(Template().fromTemplate(name).runCmd('exit 4'), `${name}-bad`), (e) => e instanceof BuildError && /exit status 4/.test(e.message))
if (Template.assignTags) {
  assert.deepEqual((await Template.assignTags(name, 'stable')).tags, ['stable'])
  assert.deepEqual((await Template.getTags(name)).map((one) => one.tag).sort(), ['default', 'stable'])
}
console.log('done')
process.exit(0)
