// The code interpreter by E2B's own JavaScript SDK: node e2b_interpreter.mjs DIRECTORY-OF-THE-PACKAGES
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'

const require = createRequire(pathToFileURL(`${process.argv[2]}/`))
const { Sandbox } = require('@e2b/code-interpreter')

// The quick start of the vendor's README.
const sandbox = await Sandbox.create()
await sandbox.runCode('x = 1')
const execution = await sandbox.runCode('x+=1; x')
assert.equal(execution.text, '2')

// A line comes as it is printed: the cell ends because it was heard.
const waits = "import os\nprint('waits')\nwhile not os.path.exists('go'): os.sched_yield()\nprint('goes')"
const printed = await sandbox.runCode(waits, { onStdout: () => sandbox.files.write('go', '') })
assert.equal(printed.logs.stdout.join(''), 'waits\ngoes\n')

const shown = await sandbox.runCode("from IPython.display import display, HTML\ndisplay(HTML('<b>x</b>'))\n1/0")
assert.equal(shown.results[0].html, '<b>x</b>')
assert.equal(shown.error.name, 'ZeroDivisionError')

// Figures as data, where the sandbox has matplotlib.
const found = await sandbox.runCode("import importlib.util\nimportlib.util.find_spec('matplotlib') is not None")
if (found.text === 'True') {
  const drawn = await sandbox.runCode("import matplotlib.pyplot as plt\nplt.pie([1, 3], labels=['a', 'b'])\nplt.show()")
  const { chart, png } = drawn.results.find((one) => one.png)
  assert.ok(png)
  assert.deepEqual([chart.type, chart.elements[1].label, chart.elements[1].angle], ['pie', 'b', 270])
}

const context = await sandbox.createCodeContext({ cwd: '/tmp' })
assert.equal((await sandbox.runCode('import os; os.getcwd()', { context })).text, "'/tmp'")
assert.ok((await sandbox.listCodeContexts()).some((one) => one.id === context.id && one.cwd === '/tmp'))
await sandbox.runCode('y = 1', { context })
await sandbox.restartCodeContext(context)
assert.equal((await sandbox.runCode('y', { context })).error.name, 'NameError')
await sandbox.removeCodeContext(context)
assert.ok(!(await sandbox.listCodeContexts()).some((one) => one.id === context.id))
await assert.rejects(sandbox.runCode('1', { language: 'javascript' }), /400/)
await sandbox.kill()
console.log('done')
process.exit(0)
