"""file_editor: the hand's editor for code that runs in the kernel, with the kernel's own rights.

Commands, checks and texts are those of the `edit` action; tests/python/test_same_editor.py holds
the two against each other.
"""

import errno
import json
import os
import uuid

from . import document, office
from .document import Document

MAX_MB = 10
RESPONSE = 16000  # characters shown
CONTEXT = 4  # lines around a change
DEPTH = 10  # edits of a file that can be undone
HISTORY = 64 << 20  # bytes of all of them
LINES_TOLD = 1000
PLENTY = 8192  # entries of a listing kept until those that cannot be shown are dropped

_CLIPPED = "<response clipped><NOTE>Due to the max output limit, only part of this "
CLIPPED_TEXT = (
    _CLIPPED + "file has been shown to you. You should retry this tool after you have searched "
    "inside the file with `grep -n` in order to find the line numbers of what you are looking "
    "for.</NOTE>"
)
CLIPPED_DOCUMENT = (
    _CLIPPED + "file has been shown to you. Please use Python libraries to view the entire file or "
    "search for specific content within the file.</NOTE>"
)
CLIPPED_DIRECTORY = (
    _CLIPPED + "directory has been shown to you. You should use `ls -la` instead to view large "
    "directories incrementally.</NOTE>"
)


class EditorError(Exception):
    pass


def _invalid(param, value, hint):
    return EditorError("Invalid `%s` parameter: %s. %s" % (param, value, hint))


def _io(error, doing, path):
    if isinstance(error, OSError) and error.errno:
        what = "[Errno %d] %s: '%s'" % (error.errno, os.strerror(error.errno), path)
    else:
        what = str(error)
    return EditorError("Ran into %s while trying to %s %s" % (what, doing, path))


def _clip(text, notice):
    return text if len(text) <= RESPONSE else text[:RESPONSE] + notice


def _numbered(text, what, first=1):
    lines = _clip(text, CLIPPED_TEXT).split("\n")
    shown = "\n".join("%6d\t%s" % line for line in enumerate(lines, first))
    return "Here's the result of running `cat -n` on %s:\n%s\n" % (what, shown)


def _normal(path):
    """Without doubled slashes, `.` parts and a final slash; `..` means what the system says."""
    if "\0" in path:
        raise EditorError("embedded null byte in a path")
    parts = "/".join(part for part in path.split("/") if part not in ("", "."))
    return ("/" if path.startswith("/") else "") + parts or "."


# --- directories --------------------------------------------------------------------------------


class _Listing:
    """The first entries in sorted order, as many as can be shown."""

    def __init__(self, path):
        self.root = os.stat(path)
        self.items = [(os.fsencode(path), True)]
        self.cut = None  # the last path that fits, once there were too many
        self.hidden = 0
        self._list(path, "" if path == "/" else path, 1)
        self._settle()

    def _settle(self):
        self.items.sort()
        chars = keep = 0
        while keep < len(self.items) and chars <= RESPONSE:
            chars += len(self._shown(self.items[keep][0])) + 1
            keep += 1
        if keep < len(self.items):
            self.cut = self.items[keep - 1][0]
            del self.items[keep:]

    def _list(self, path, prefix, depth):
        with os.scandir(path) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    self.hidden += depth == 1
                    continue
                below = prefix + "/" + entry.name
                if self.cut is not None and os.fsencode(below) > self.cut:
                    continue
                is_dir = os.path.isdir(below)
                self.items.append((os.fsencode(below), is_dir))
                if len(self.items) == PLENTY:
                    self._settle()
                if is_dir and depth < 2 and not os.path.samestat(os.stat(below), self.root):
                    try:
                        self._list(below, below, depth + 1)
                    except OSError:  # listed, without contents
                        pass

    @staticmethod
    def _shown(path):
        """A name may hold anything; a line break in it must not look like another entry."""
        text = path.decode("utf-8", "replace")
        return "".join("?" if c < " " or c == "\x7f" else c for c in text)

    def text(self):
        lines, left = [], RESPONSE
        for number, (path, is_dir) in enumerate(self.items, 1):
            shown = self._shown(path)
            if number == len(self.items) and (self.cut is not None or len(shown) > left):
                return "\n".join(lines + [shown[:left] + CLIPPED_DIRECTORY])
            lines.append(shown + "/" * is_dir)
            left -= len(shown) + 1
        return "\n".join(lines)


def _view_directory(path):
    listing = _Listing(path)
    text = (
        "Here's the files and directories up to 2 levels deep in %s, excluding hidden items:\n%s"
        % (path, listing.text())
    )
    if listing.hidden:
        text += (
            "\n\n%d hidden files/directories in this directory are excluded. You can use 'ls -la "
            "%s' to see them." % (listing.hidden, path)
        )
    return text


# --- the editor ---------------------------------------------------------------------------------


class Editor:
    def __init__(self):
        self._history = []  # (path, created, bytes), oldest first

    def __call__(self, command, path, **args):
        """What the command has to say, and the text of the file before and after it, or None."""
        line = args.get("insert_line")
        if line is not None:
            try:
                if isinstance(line, bool) or not isinstance(line, (int, str)):
                    raise ValueError
                args["insert_line"] = int(line)
            except ValueError:
                raise EditorError(
                    "Invalid insert_line value: '%s'. Expected an integer." % (line,)
                ) from None
        path = _normal(path)
        exists = self._check(command, path)
        if command not in self.COMMANDS:
            raise EditorError(
                "Unrecognized command %s. The allowed commands for the oh_editor tool are: %s"
                % (command, ", ".join(self.COMMANDS))
            )
        return (exists,) + self.COMMANDS[command](self, path, args)

    @staticmethod
    def _check(command, path):
        if not path.startswith("/"):
            hint = "The path should be an absolute path, starting with `/`."
            meant = os.path.join(os.getcwd(), path)
            if os.path.exists(meant):
                hint += " Maybe you meant %s?" % meant
            raise _invalid("path", path, hint)
        try:
            os.stat(path)
            exists = True
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                raise _io(error, "read", path) from None
            exists = False
        if command == "create" and exists:
            raise _invalid(
                "path",
                path,
                "File already exists at: %s. Cannot overwrite files using command `create`." % path,
            )
        if command != "create" and not exists:
            raise _invalid(
                "path", path, "The path %s does not exist. Please provide a valid path." % path
            )
        if command != "view" and exists and os.path.isdir(path):
            raise _invalid(
                "path",
                path,
                "The path %s is a directory and only the `view` command can be used on directories."
                % path,
            )
        if command != "view" and document.is_document(path):
            raise _invalid(
                "path",
                path,
                "The path %s points to a binary file (%s) and only the `view` command can be used "
                "on supported binary files." % (path, document.extension(path)),
            )
        return exists

    @staticmethod
    def _read(path):
        """The bytes of a file that is neither too large nor binary."""
        why = "File validation failed for %s: " % path
        try:
            with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
                if not document.stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise ValueError("something that is not a regular file")
                size = os.fstat(file.fileno()).st_size
                if size > MAX_MB << 20:
                    raise EditorError(
                        "%sFile is too large (%.1fMB). Maximum allowed size is %dMB."
                        % (why, size / 1024 / 1024, MAX_MB)
                    )
                data = file.read(MAX_MB << 20)
        except (OSError, ValueError) as error:
            raise _io(error, "read", path) from None
        if document.is_binary(path, data) and not document.is_document(path):
            raise EditorError(
                why + "File appears to be binary and this file type cannot be read or edited by "
                "this tool."
            )
        return data

    def _load(self, path):
        try:
            return Document(self._read(path))
        except ValueError as error:
            raise _io(error, "read", path) from None

    def _save(self, path, exists, before, text):
        """Writes the text, as on disk, and remembers what was there."""
        try:
            after = before.changed(text)
            document.replace(path, after.data)
        except (OSError, ValueError) as error:
            raise _io(error, "write to", path) from None
        self._remember(path, not exists, before.data if exists else after.data)
        return after

    def _remember(self, path, created, data):
        self._history.append((path, created, data))
        same = [entry for entry in self._history if entry[0] == path]
        if len(same) > DEPTH:
            self._history.remove(same[0])
        while sum(len(entry[2]) for entry in self._history) > HISTORY:
            del self._history[0]

    # Each returns (output, old text or None, new text or None).

    def view(self, path, args):
        view_range = args.get("view_range")

        def wrong(hint):
            return _invalid("view_range", view_range, hint)

        if os.path.isdir(path):
            if view_range is not None:
                raise wrong(
                    "The `view_range` parameter is not allowed when `path` points to a directory."
                )
            try:
                return _view_directory(path), None, None
            except OSError as error:
                raise _io(error, "read", path) from None
        if document.is_document(path):
            return self._view_document(path), None, None
        doc = self._load(path)
        if view_range is None:
            return _numbered(doc.lf, path), None, None
        if (
            not isinstance(view_range, (list, tuple))
            or len(view_range) != 2
            or not all(type(number) is int for number in view_range)
        ):
            raise wrong("It should be a list of two integers.")
        (first, last), count, note = view_range, doc.line_count(), ""
        if not 1 <= first <= count:
            raise wrong(
                "Its first element `%d` should be within the range of lines of the file: [1, %d]."
                % (first, count)
            )
        if last > count:
            note = "NOTE: We only show up to %d since there're only %d lines in this file.\n"
            note %= (count, count)
        if last == -1 or last > count:
            last = count
        if last < first:
            raise wrong(
                "Its second element `%d` should be greater than or equal to the first element `%d`."
                % (last, first)
            )
        text = doc.lines(first, last)
        return note + _numbered(text[:-1] if text.endswith("\n") else text, path, first), None, None

    def _view_document(self, path):
        data = self._read(path)
        try:
            text = office.markdown(path, data)
        except Exception as error:  # whatever a broken file makes of its readers
            raise _io(ValueError(error), "read", path) from None
        return "Here's the content of the file %s displayed in Markdown format:\n%s\n" % (
            path,
            _clip(text, CLIPPED_DOCUMENT),
        )

    def create(self, path, args):
        text = _required(args, "create", "file_text")
        after = self._save(path, False, Document(), text)
        return "File created successfully at: %s" % path, None, after.lf

    def str_replace(self, path, args):
        old, new = _required(args, "str_replace", "old_str"), args.get("new_str")
        if new == old:
            raise _invalid(
                "new_str",
                new,
                "No replacement was performed. `new_str` and `old_str` must be different.",
            )
        before = self._load(path)
        old, new = document.to_lf(old), new or ""
        if old not in before.lf:
            old, new = old.strip(), new.strip()
        at = before.lf.find(old)
        if at < 0:
            raise EditorError(
                "No replacement was performed, old_str `%s` did not appear verbatim in %s."
                % (old, path)
            )
        if before.lf.find(old, at + max(1, len(old))) >= 0:
            raise EditorError(
                "No replacement was performed. Multiple occurrences of old_str `%s` in lines [%s]. "
                "Please ensure it is unique." % (old, _lines_of(before.lf, old))
            )
        text, start, end = before.text, before.offset(at), before.offset(at + len(old))
        after = self._save(path, True, before, text[:start] + before.in_eol(new) + text[end:])
        line = before.lf.count("\n", 0, at) + 1
        first = max(1, line - CONTEXT + 1)
        snippet = after.lines(first, line + CONTEXT + new.count("\n"))
        output = (
            "The file %s has been edited. %sReview the changes and make sure they are as expected. "
            "Edit the file again if necessary."
            % (path, _numbered(snippet, "a snippet of " + path, first))
        )
        return output, before.lf, after.lf

    def insert(self, path, args):
        line = _required(args, "insert", "insert_line")
        new = _required(args, "insert", "new_str")
        before = self._load(path)
        count = before.line_count()
        if not 0 <= line <= count:
            raise _invalid(
                "insert_line",
                line,
                "It should be within the range of allowed values: [0, %d]" % count,
            )
        head = before.lines(1, line)
        at = before.offset(len(head))
        glue = before.eol if head and not head.endswith("\n") else ""
        added = glue + before.in_eol(new) + before.eol
        after = self._save(path, True, before, before.text[:at] + added + before.text[at:])
        pieces = new.count("\n") + 1
        first = max(1, line - CONTEXT + 1)
        snippet = after.lines(first, min(line + CONTEXT + pieces, count + pieces))
        output = (
            "The file %s has been edited. %sReview the changes and make sure they are as expected "
            "(correct indentation, no duplicate lines, etc). Edit the file again if necessary."
            % (path, _numbered(snippet, "a snippet of the edited file", first))
        )
        return output, before.lf, after.lf

    def undo_edit(self, path, args):
        before = self._load(path)
        entry = next((e for e in reversed(self._history) if e[0] == path), None)
        if not entry:
            raise EditorError("No edit history found for %s." % path)
        _, created, data = entry
        remove = created and before.data == data
        try:
            after = Document(b"" if remove else data)
            if remove:
                os.unlink(os.path.realpath(path))
            else:
                document.replace(path, data)
        except (OSError, ValueError) as error:
            raise _io(error, "write to", path) from None
        if remove or not created:
            self._history.remove(entry)
        output = "Last edit to %s undone successfully. " % path
        if remove:
            output += "The file had been created by that edit and has been removed."
        else:
            output += _numbered(after.lf, path)
        return output, before.lf, after.lf

    COMMANDS = {
        "view": view,
        "create": create,
        "str_replace": str_replace,
        "insert": insert,
        "undo_edit": undo_edit,
    }


def _required(args, command, name):
    if args.get(name) is None:
        raise EditorError("Parameter `%s` is required for command: %s." % (name, command))
    return args[name]


def _lines_of(text, old):
    """The numbers of the lines in which old starts."""
    told, line, counted, at = [], 1, 0, text.find(old)
    while at >= 0:
        line += text.count("\n", counted, at)
        counted = at
        if not told or told[-1] != line:
            if len(told) == LINES_TOLD:
                told.append("...")
                break
            told.append(line)
        at = text.find(old, at + max(1, len(old)))
    return ", ".join(map(str, told))


_editor = Editor()


def file_editor(
    command,
    path,
    file_text=None,
    view_range=None,
    old_str=None,
    new_str=None,
    insert_line=None,
    enable_linting=False,
):
    """Views, creates and edits files; returns the answer as JSON between two marks.

    command: view, create, str_replace, insert or undo_edit; path: absolute.
    create wants file_text; str_replace wants old_str, which must occur exactly once, and new_str;
    insert wants insert_line (the line after which) and new_str; view takes a view_range
    [first, last] for files. enable_linting is accepted and does nothing.
    """
    result = dict.fromkeys(("output", "error", "path"))
    result.update(prev_exist=True, old_content=None, new_content=None)
    try:
        existed, output, old, new = _editor(
            command,
            path,
            file_text=file_text,
            view_range=view_range,
            old_str=old_str,
            new_str=new_str,
            insert_line=insert_line,
        )
        result.update(
            output=output, path=path, prev_exist=existed, old_content=old, new_content=new
        )
        formatted = output
    except EditorError as error:
        result["error"] = str(error)
        formatted = "ERROR:\n" + str(error)
    result["formatted_output_and_error"] = formatted
    mark = "oh_aci_output_" + uuid.uuid4().hex
    return "<%s>\n%s\n</%s>" % (mark, json.dumps(result), mark)
