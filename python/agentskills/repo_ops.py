"""Finding one's way in a repository of Python code: entities, what they hold, what they touch.

An entity is a directory ("src"), a file ("src/app.py"), or a class or function in one
("src/app.py:Server.run"). Paths start at the current directory. Relations between functions are
found by name, which is what can be known without running the code. All return their answer.
"""

import ast
import fnmatch
import os
import re

MOST_FILES = 5000
MOST_BYTES = 1 << 20  # of a file that is looked into
MOST_LINES = 500  # of an entity that are shown
MOST_HITS = 20  # of a search term
AROUND = 5  # lines shown around a hit

TYPES = ("directory", "file", "class", "function")
DEPENDENCIES = ("contains", "imports", "inherits", "invokes")
_SKIPPED = ("node_modules", "__pycache__", "venv", "site-packages", "build", "dist")


def _files(pattern="**"):
    """Paths of files in the repository that match, hidden and generated ones left out."""
    count = 0
    for folder, folders, names in os.walk("."):
        folders[:] = sorted(f for f in folders if f[0] != "." and f not in _SKIPPED)
        for name in sorted(names):
            path = os.path.normpath(os.path.join(folder, name))
            if name[0] == "." or not _fits(path, pattern):
                continue
            count += 1
            if count > MOST_FILES:
                return
            yield path


def _fits(path, pattern):
    pattern = os.path.normpath(pattern)
    return (
        path == pattern
        or path.startswith(pattern + os.sep)
        or fnmatch.fnmatch(path, pattern)
        or (pattern.startswith("**/") and fnmatch.fnmatch(path, pattern[3:]))
    )


def _read(path):
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MOST_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


class Entity:
    """A class or function, or the module that holds them."""

    def __init__(self, path, name, node, first, last):
        self.path, self.name, self.node = path, name, node
        self.first, self.last = first, last
        self.type = "class" if isinstance(node, ast.ClassDef) else "function" if name else "file"
        self.id = path + ":" + name if name else path

    def calls(self):
        """Names that are called in it, its own functions left out."""
        todo = list(ast.iter_child_nodes(self.node))
        while todo:
            node = todo.pop()
            if isinstance(node, ast.Call):
                name = getattr(node.func, "attr", getattr(node.func, "id", None))
                if name:
                    yield name
            if self.type == "function" or not isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ):
                todo.extend(ast.iter_child_nodes(node))

    def bases(self):
        for base in getattr(self.node, "bases", ()):
            yield getattr(base, "attr", getattr(base, "id", None))

    def imports(self):
        """(module, names) with dots in front of relative ones."""
        for node in ast.walk(self.node):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield alias.name, []
            elif isinstance(node, ast.ImportFrom):
                yield "." * node.level + (node.module or ""), [a.name for a in node.names]


def _entities(path):
    """The module and what it defines, in the order of the file."""
    text = _read(path)
    try:
        module = ast.parse(text) if path.endswith(".py") else ast.Module([], [])
    except (SyntaxError, ValueError, RecursionError):
        module = ast.Module([], [])
    found = [Entity(path, "", module, 1, text.count("\n") + 1)]

    def collect(node, prefix):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                first = min([child.lineno] + [d.lineno for d in child.decorator_list])
                name = prefix + child.name
                found.append(Entity(path, name, child, first, child.end_lineno))
                collect(child, name + ".")
            elif not isinstance(child, ast.expr):
                collect(child, prefix)

    collect(module, "")
    return found


def _find(name):
    """The entity with that id, or None."""
    path, _, inner = name.partition(":")
    path = os.path.normpath(path)
    if not os.path.isfile(path):
        return None
    return next((e for e in _entities(path) if e.name == inner), None)


def _similar(name):
    last = re.split(r"[:./]", name)[-1].lower()
    hits = (e.id for p in _files("**/*.py") for e in _entities(p) if e.id.lower().endswith(last))
    return [hit for hit, _ in zip(hits, range(5))] if last else []


def _unknown(name):
    text = "The entity name `%s` is invalid." % name
    similar = _similar(name)
    if similar:
        text += " Did you mean one of these?\n" + "\n".join("- `%s`" % s for s in similar)
    return text


def _snippet(path, first, last):
    lines = _read(path).split("\n")
    shown = lines[first - 1 : min(last, first + MOST_LINES - 1)]
    text = "\n".join("%d | %s" % line for line in enumerate(shown, first))
    if first + MOST_LINES - 1 < min(last, len(lines)):
        text += "\n... (%d more lines)" % (min(last, len(lines)) - first - MOST_LINES + 1)
    return "```\n%s\n```" % text


def _shown(entity):
    return "Found %s `%s` (lines %d-%d).\n%s" % (
        entity.type,
        entity.id,
        entity.first,
        entity.last,
        _snippet(entity.path, entity.first, entity.last),
    )


def _listed(value):
    return [value] if isinstance(value, (str, int)) else list(value or [])


def get_entity_contents(entity_names):
    """Returns the code of entities: ["src/app.py", "src/app.py:Server.run"]."""
    answers = []
    for name in _listed(entity_names):
        entity = _find(name)
        answers.append(_shown(entity) if entity else _unknown(name))
    return "\n\n".join(answers)


def search_code_snippets(search_terms=None, line_nums=None, file_path_or_pattern="**/*.py"):
    """Returns code that has to do with the search terms, or that is around the line numbers.

    A term that is the name of a class or function finds it; any other one finds lines.
    file_path_or_pattern says where to look; line_nums want the path of a file there.
    """
    answers = []
    for term in _listed(search_terms):
        found = _search(str(term), file_path_or_pattern)
        answers.append("## Results for `%s`\n%s" % (term, found or "No results."))
    for number in _listed(line_nums):
        answers.append(_around(file_path_or_pattern, int(number)))
    return "\n\n".join(answers) or "Nothing to search for: give search_terms or line_nums."


def _search(term, pattern):
    named, lines = [], []
    for path in _files(pattern):
        if term == path:
            named.append("Found file `%s`." % path)
        entities = None
        for number, line in enumerate(_read(path).split("\n"), 1):
            if term.rsplit(":", 1)[-1].rsplit(".", 1)[-1] not in line:
                continue
            entities = entities or _entities(path)
            for e in entities:
                if e.first <= number <= e.last and (term == e.id or _named(e, term)):
                    text = _shown(e)
                    if text not in named:
                        named.append(text)
            if term in line:
                lines.append("%s:%d: %s" % (path, number, line.strip()[:200]))
        if len(named) >= MOST_HITS or len(lines) >= 1000:
            break
    shown = named[:MOST_HITS]
    if not named and lines:
        shown = lines[:MOST_HITS]
        if len(lines) > MOST_HITS:
            shown.append("... (%d more lines)" % (len(lines) - MOST_HITS))
    return "\n\n".join(shown) if named else "\n".join(shown)


def _named(entity, term):
    return bool(entity.name) and (entity.name == term or entity.name.endswith("." + term))


def _around(path, number):
    if not os.path.isfile(path):
        return "Line numbers want the path of a file, not `%s`." % path
    inner = [e for e in _entities(path) if e.name and e.first <= number <= e.last]
    where = " in %s `%s`" % (inner[-1].type, inner[-1].id) if inner else ""
    first = max(1, number - AROUND)
    return "Line %d of `%s`%s:\n%s" % (number, path, where, _snippet(path, first, number + AROUND))


# --- relations ----------------------------------------------------------------------------------


class _Graph:
    """Who contains, imports, inherits from and invokes whom."""

    def __init__(self):
        self.types, self.edges = {}, []  # id -> type; (from, kind, to)
        modules, by_name, entities = {}, {}, []
        for path in _files("**"):
            self._contain(path)
            if path.endswith(".py"):
                entities += _entities(path)
                name = path[:-3].replace(os.sep, ".")
                modules[name[:-9] if name.endswith(".__init__") else name] = path
        for e in entities:
            if e.name:
                self.types[e.id] = e.type
                outer = e.id.rpartition(".")[0] if "." in e.name else e.path
                self.edges.append((outer, "contains", e.id))
                by_name.setdefault(e.name.rsplit(".", 1)[-1], []).append(e)
        for e in entities:
            if not e.name:
                for target in sorted(self._imported(e, modules) - {e.path}):
                    self.edges.append((e.path, "imports", target))
            for kind, names, wanted in (
                ("inherits", e.bases(), ("class",)),
                ("invokes", e.calls(), ("class", "function")),
            ):
                for name in sorted(set(filter(None, names))):
                    targets = [t for t in by_name.get(name, []) if t.type in wanted]
                    near = [t for t in targets if t.path == e.path] or targets
                    self.edges += [(e.id, kind, t.id) for t in near if t.id != e.id]

    def _contain(self, path):
        child, kind = path, "file"
        while child and child not in self.types:
            self.types[child] = kind
            parent = os.path.dirname(child)
            self.edges.append((parent or ".", "contains", child))
            child, kind = parent, "directory"
        self.types["."] = "directory"

    @staticmethod
    def _imported(entity, modules):
        package = entity.path.split(os.sep)[:-1]
        found = set()
        for module, names in entity.imports():
            level = len(module) - len(module.lstrip("."))
            rest = module.lstrip(".")
            if level:
                base = package[: len(package) - level + 1]
                rest = ".".join(base + ([rest] if rest else []))
            for name in [rest] + ["%s.%s" % (rest, n) for n in names]:
                suffix = [m for m in modules if m == name or m.endswith("." + name)]
                found.update(modules[m] for m in suffix[:1] if name)
        return found


def explore_tree_structure(
    start_entities,
    direction="downstream",
    traversal_depth=2,
    entity_type_filter=None,
    dependency_type_filter=None,
):
    """Returns a tree of what entities contain, import, inherit from and invoke.

    direction: downstream (what they use), upstream (who uses them) or both; traversal_depth: how
    far, -1 for all the way. The filters name types of entities (directory, file, class, function)
    and of dependencies (contains, imports, inherits, invokes).
    """
    for values, allowed in (
        (_listed(entity_type_filter), TYPES),
        (_listed(dependency_type_filter), DEPENDENCIES),
        ([direction], ("downstream", "upstream", "both")),
    ):
        wrong = [v for v in values if v not in allowed]
        if wrong:
            return "Invalid value `%s`: expected one of %s." % (wrong[0], ", ".join(allowed))
    graph, answers = _Graph(), []
    ways = ("downstream", "upstream") if direction == "both" else (direction,)
    for name in _listed(start_entities):
        start = os.path.normpath(name) if ":" not in name else name
        start = "." if start in ("/", "") else start
        if start not in graph.types:
            answers.append(_unknown(name))
            continue
        for way in ways:
            tree = _Tree(graph, way, _listed(entity_type_filter), _listed(dependency_type_filter))
            answers.append("\n".join(tree.lines(start, int(traversal_depth))))
    return "\n\n".join(answers)


class _Tree:
    MOST = 300  # lines

    def __init__(self, graph, way, types, kinds):
        self.types, self.neighbours = graph.types, {}
        for source, kind, target in graph.edges:
            here, there = (source, target) if way == "downstream" else (target, source)
            if (kinds and kind not in kinds) or (types and graph.types.get(there) not in types):
                continue
            mark = kind if way == "downstream" else kind + " by"
            self.neighbours.setdefault(here, []).append((mark, there))

    def lines(self, start, depth):
        out, seen = [start], {start}
        self._grow(start, "", depth, out, seen)
        return out if len(out) <= self.MOST else out[: self.MOST] + ["... (more)"]

    def _grow(self, node, prefix, depth, out, seen):
        around = self.neighbours.get(node, []) if depth else []
        for number, (mark, there) in enumerate(around, 1):
            if len(out) > self.MOST:
                return
            last = number == len(around)
            out.append("%s%s %s ── %s" % (prefix, "└──" if last else "├──", mark, there))
            if there not in seen:
                seen.add(there)
                self._grow(there, prefix + ("    " if last else "│   "), depth - 1, out, seen)
