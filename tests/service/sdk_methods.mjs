// What the published classes of a vendor's JavaScript SDK offer: node sdk_methods.mjs TYPESCRIPT FILE.d.ts CLASSES prints
// ["part.method"] as JSON. CLASSES is JSON: {part: "Class Class"}; of "Class*" it is the resources that it holds, and theirs.
import { createRequire } from 'node:module'

const [typescript, file, classes] = process.argv.slice(2)
const ts = createRequire(import.meta.url)(typescript)
const program = ts.createProgram([file], { module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext, noEmit: true })
const checker = program.getTypeChecker()
const module = checker.getSymbolAtLocation(program.getSourceFile(file))
const exported = new Map(checker.getExportsOfModule(module).map(one => [one.name, one]))
const hidden = ts.ModifierFlags.Private | ts.ModifierFlags.Protected

function* open(type) {
  for (const one of type.getProperties()) {
    const [declaration] = one.declarations ?? []
    if (declaration && !one.name.startsWith('_') && !(ts.getCombinedModifierFlags(declaration) & hidden) && !/\/node_modules\/typescript\//.test(declaration.getSourceFile().fileName))
      yield [one.name, checker.getTypeOfSymbol(one)]
  }
}

const isMethod = type => type.getCallSignatures().length > 0

function* methods(type, part) {
  for (const [method, its] of open(type))
    if (method !== 'prototype' && isMethod(its))
      yield part ? `${part}.${method}` : method
}

function* resources(type, path = '') {
  for (const [name, held] of open(type)) {
    if (!/\/resources\//.test(held.symbol?.declarations?.[0].getSourceFile().fileName ?? ''))
      continue
    for (const [method, its] of open(held))
      if (isMethod(its))
        yield `${path}${name}.${method}`
    yield* resources(held, `${path}${name}.`)
  }
}

// A class that the package exports, or else one that what it exports leads to.
function symbolOf(name) {
  const symbol = exported.get(name)
  if (symbol)
    return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  for (const source of program.getSourceFiles())
    for (const statement of source.statements)
      if (ts.isClassDeclaration(statement) && statement.name?.text === name)
        return checker.getSymbolAtLocation(statement.name)
  throw new Error(`${file} leads to no ${name}`)
}

const found = new Set()
for (const [part, names] of Object.entries(JSON.parse(classes)))
  for (const name of names.split(' ')) {
    const symbol = symbolOf(name.replace('*', ''))
    const ofInstances = checker.getDeclaredTypeOfSymbol(symbol)
    const all = name.endsWith('*') ? resources(ofInstances) : [...methods(ofInstances, part), ...methods(checker.getTypeOfSymbol(symbol), part)]
    for (const method of all)
      found.add(method)
  }
console.log(JSON.stringify([...found].sort()))
